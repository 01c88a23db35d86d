package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
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
