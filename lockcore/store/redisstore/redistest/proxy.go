package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
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

// URL for the gateway.
func (p *Proxy) URL() string { return "redis://" + p.Addr }

// Stop refuses new connections and cuts those that are open.
func (p *Proxy) Stop() { p.proxy.Stop() }

// Resume ends Stop.
func (p *Proxy) Resume(t testing.TB) {
	t.Helper()
	if err := p.proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

// CutReplies cuts every connection when its next reply comes, which is lost.
func (p *Proxy) CutReplies(t testing.TB) { p.cut(t, "downstream") }

// CutRequests cuts every connection when its next request comes, which is lost.
func (p *Proxy) CutRequests(t testing.TB) { p.cut(t, "upstream") }

func (p *Proxy) cut(t testing.TB, direction string) {
	t.Helper()
	p.add(t, `{"type": "limit_data", "stream": "`+direction+`", "attributes": {"bytes": 0}}`)
}

// Delay holds every reply back for a time.
func (p *Proxy) Delay(t testing.TB, by time.Duration) {
	t.Helper()
	p.add(t, fmt.Sprintf(`{"type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`, by.Milliseconds()))
}

func (p *Proxy) add(t testing.TB, toxic string) {
	t.Helper()
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}
}

// Mend ends CutReplies, CutRequests and Delay for new connections.
func (p *Proxy) Mend() { p.proxy.Toxics.ResetToxics(context.Background()) }
