package redistest

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Proxy stands in front of a server and can do to connections what networks do.
type Proxy struct {
	Addr  string
	proxy *toxiproxy.Proxy
}

// StartProxy forwards to the server at upstream, which need not be up yet.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{Addr: FreeAddr(t)}
	p.proxy = toxiproxy.NewProxy(api, p.Addr, p.Addr, upstream)
	t.Cleanup(p.Stop)
	p.Resume(t)
	return p
}

// Stop refuses new connections and cuts those that are open.
func (p *Proxy) Stop() { p.proxy.Stop() }

// Resume ends Stop.
func (p *Proxy) Resume(t testing.TB) {
	t.Helper()
	if err := p.proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

// CutReply loses the next reply that holds a word, and cuts its connection.
// Whatever comes after, on other connections, passes.
func (p *Proxy) CutReply(t testing.TB, word string) {
	t.Helper()
	p.cut(t, "downstream", word)
}

// CutRequest is CutReply for requests.
func (p *Proxy) CutRequest(t testing.TB, word string) {
	t.Helper()
	p.cut(t, "upstream", word)
}

func (p *Proxy) cut(t testing.TB, direction, word string) {
	t.Helper()
	p.proxy.Toxics.ResetToxics(context.Background()) // of an earlier cut
	toxic, err := json.Marshal(map[string]any{"type": "cut", "stream": direction, "attributes": map[string]any{"word": word}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.proxy.Toxics.AddToxicJson(bytes.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}
}

func init() { toxics.Register("cut", new(cut)) }

// cut cuts one of the connections that it stands in.
type cut struct {
	Word string
	done atomic.Bool
}

// Pipe implements toxics.Toxic.
func (c *cut) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil || bytes.Contains(chunk.Data, []byte(c.Word)) && c.done.CompareAndSwap(false, true) {
				stub.Close()
				return
			}
			stub.Output <- chunk
		}
	}
}
