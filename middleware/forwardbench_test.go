package middleware

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkForward compares a GET of 1 KiB through the gateway with the same
// GET sent to the upstream directly. Client, gateway and upstream share the
// machine; compare within one run.
func BenchmarkForward(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1<<10)
	upstreams := map[string]func() string{
		"net/http": func() string {
			return newUpstream(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
		},
		"fasthttp": func() string {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { c.Response.SetBodyRaw(body) }}
			go server.Serve(listener)                   //nolint:errcheck // ends with the benchmark
			b.Cleanup(func() { _ = server.Shutdown() }) // ends with the benchmark
			return "http://" + listener.Addr().String()
		},
	}
	for name, start := range upstreams {
		b.Run(name, func(b *testing.B) {
			upstream := start()
			b.Run("direct", func(b *testing.B) { loadGET(b, upstream) })
			b.Run("forwarded", func(b *testing.B) { loadGET(b, "http://"+newFront(b, upstream, nil).addr) })
		})
	}
}

// loadGET has 64 clients.
func loadGET(b *testing.B, url string) {
	const clients = 64
	client := &fasthttp.Client{MaxConnsPerHost: clients}
	defer client.CloseIdleConnections()
	turns := make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range turns {
				status, _, err := client.Get(nil, url+"/a?b=c")
				if err != nil || status != http.StatusOK {
					b.Errorf("status %d, %v", status, err)
				}
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}
