package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pages is a request that is not for locks.
func pages(path string) request { return request{method: http.MethodGet, path: path} }

// publish serves this status and text, as an upstream or as the URL of a key set.
func publish(t testing.TB, status int, text string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// edge has everything that a gateway in front of an API can have.
func edge(t testing.TB) settings {
	t.Helper()
	keys := newKeys(t)
	delete(keys, "HS256") // a secret, which nobody publishes
	return settings{
		"GATEWAY_UPSTREAM": publish(t, http.StatusOK, "a page"),
		"GATEWAY_JWKS_URL": publish(t, http.StatusOK, keySet(t, keys)),
	}
}

func TestAWebSocketIsCountedAsOne(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = c.Close() // which ends it for the client too
	}))
	t.Cleanup(upstream.Close)
	g := start(t, settings{"GATEWAY_UPSTREAM": upstream.URL})
	a := g.clientWith(t, "").do(pages("/chat").with("Connection", "Upgrade").with("Upgrade", "websocket"))
	if a.status != http.StatusSwitchingProtocols {
		t.Fatalf("got %v", a)
	}
	const counted = `gateway_requests_total{code="none",operation="forward",status="101"} 1`
	eventually(t, counted, func() bool { return strings.Contains(g.metrics(), counted) })
}

func TestWhatAnUpstreamSendsUnaskedIsNotLogged(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\nthe-secret-of-somebody")
		time.Sleep(100 * time.Millisecond) // until net/http has met it
		_ = c.Close()
	}))
	t.Cleanup(upstream.Close)
	g := start(t, settings{"GATEWAY_UPSTREAM": upstream.URL})
	for range 3 {
		g.clientWith(t, "").do(pages("/"))
		time.Sleep(20 * time.Millisecond)
	}
	stopsWithin(t, g, slack, syscall.SIGTERM)
	if log := g.stderr.String(); strings.Contains(log, "the-secret") {
		t.Errorf("the log quotes it:\n%s", log)
	}
}
