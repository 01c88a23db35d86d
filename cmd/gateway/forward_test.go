package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
)

// running is a gateway that serves, and what it has written.
type running struct {
	*gateway
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
	audit *bytes.Buffer // to be read when it has ended
	key   string
}

func startGateway(t *testing.T, environ map[string]string) *running {
	t.Helper()
	secret := strings.Repeat("k", auth.MinSecretBytes)
	all := map[string]string{
		"GATEWAY_ADDR": "127.0.0.1:0", "GATEWAY_ADMIN_ADDR": "127.0.0.1:0", "GATEWAY_JWT_SECRET": secret,
		"GATEWAY_STORE": "bolt://" + filepath.Join(t.TempDir(), "locks.db"),
	}
	maps.Copy(all, environ)
	settings, err := configs.Load(all)
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.Mint([]byte(secret), auth.Grant{Kind: auth.ServiceRole, Project: uuid.New(), IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, stop: stop, ended: make(chan error, 1), audit: &bytes.Buffer{}, key: key}
	ready := make(chan *gateway, 1)
	go func() {
		r.ended <- process{stdout: r.audit, stderr: io.Discard}.run(ctx, settings, func(g *gateway) { ready <- g })
	}()
	select {
	case r.gateway = <-ready:
	case err := <-r.ended:
		t.Fatalf("it did not start: %v", err)
	}
	t.Cleanup(stop)
	return r
}

func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
}

// send sends a text on a connection of its own and returns the first response.
func (r *running) send(format string, args ...any) (*http.Response, string) {
	r.t.Helper()
	client, err := net.Dial("tcp", r.public.Addr().String()) //nolint:noctx // loopback
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // over
	if _, err := fmt.Fprintf(client, format, args...); err != nil {
		r.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response, string(body)
}

func TestWhatIsNoLockEndpointIsForwarded(t *testing.T) {
	var forwarded atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded.Add(1)
		_, _ = io.WriteString(w, r.Method+" "+r.RequestURI) //nolint:gosec // no browser here
	}))
	defer upstream.Close()
	g := startGateway(t, map[string]string{"GATEWAY_UPSTREAM": upstream.URL + "/base"})
	for _, c := range []struct {
		request string // without a version
		status  int
		body    string // with which it begins; empty: an error
	}{
		{"GET /", 200, "GET /base/"},
		{"PROPFIND /a?b", 200, "PROPFIND /base/a?b"},
		{"TRACE /a", 200, "TRACE /base/a"},
		{"DELETE /lockset/a", 200, "DELETE /base/lockset/a"},
		{"GET /metrics", 200, "GET /base/metrics"},
		{"GET /locks/a", 200, `{"held":false}`},
		{"PROPFIND /locks/a", 405, ""},
		{"GET /locks/%2e%2e", 400, ""},
		{"GET /locks", 404, ""},
		{"GET /LOCKS/a", 404, ""},
		{"GET /locks/a/lease/", 404, ""},
		{"POST //locks/a/lease", 404, ""},
		{"GET /x/../locks/a", 404, ""},
		{"GET /../admin", 404, ""},
		{"GET http://evil.example/a", 400, ""},
		{"GET http://evil.example/locks/a", 400, ""},
		{"CONNECT evil.example:443", 400, ""},
	} {
		before := forwarded.Load()
		response, body := g.send("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", c.request, g.key)
		if response.StatusCode != c.status || !strings.HasPrefix(body, c.body) || c.body == "" && !strings.Contains(body, `"code":`) {
			t.Errorf("%s: status %d, %s", c.request, response.StatusCode, body)
		}
		if reached, want := forwarded.Load() > before, c.status == 200 && !strings.Contains(c.body, "held"); reached != want {
			t.Errorf("%s: reached the upstream: %v", c.request, reached)
		}
	}
	g.end()
}

func TestWithoutAnUpstreamThereIsNothing(t *testing.T) {
	g := startGateway(t, nil)
	for _, method := range []string{"GET", "POST", "PROPFIND"} {
		if response, body := g.send("%s /a HTTP/1.1\r\nHost: x\r\n\r\n", method); response.StatusCode != http.StatusNotFound || !strings.Contains(body, `"not_found"`) {
			t.Errorf("%s: status %d, %s", method, response.StatusCode, body)
		}
	}
	g.end()
}

func TestTheAuditNamesTheClientBehindTrustedProxies(t *testing.T) {
	for trusted, want := range map[string]string{"": "127.0.0.1", "127.0.0.0/8": "198.51.100.1"} {
		g := startGateway(t, map[string]string{"GATEWAY_TRUSTED_PROXIES": trusted})
		g.send("GET /locks/a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.1, 198.51.100.1\r\nAuthorization: Bearer %s\r\n\r\n", g.key)
		g.end()
		var line struct{ Client string }
		if err := json.Unmarshal(g.audit.Bytes(), &line); err != nil || line.Client != want {
			t.Errorf("trusting %q: %s", trusted, g.audit)
		}
	}
}

func TestAShutdownFinishesWhatIsForwarded(t *testing.T) {
	arrived, let := make(chan struct{}, 1), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			client, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close() //nolint:errcheck // over
			_, _ = io.WriteString(client, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(io.Discard, client)
			return
		}
		arrived <- struct{}{}
		<-let
		_, _ = io.WriteString(w, "finished")
	}))
	defer upstream.Close()
	g := startGateway(t, map[string]string{"GATEWAY_UPSTREAM": upstream.URL, "GATEWAY_SHUTDOWN_TIMEOUT": "5s"})
	socket, err := net.Dial("tcp", g.public.Addr().String()) //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() //nolint:errcheck // over
	_, _ = io.WriteString(socket, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(socket)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%q, %v", line, err)
	}
	answer := make(chan string, 1)
	go func() {
		_, body := g.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		answer <- body
	}()
	<-arrived
	began := time.Now()
	g.stop()
	if _, err := io.Copy(io.Discard, r); err != nil || time.Since(began) > time.Second {
		t.Errorf("the WebSocket ended after %v: %v", time.Since(began), err)
	}
	time.Sleep(100 * time.Millisecond)
	close(let)
	if body := <-answer; body != "finished" {
		t.Errorf("got %q", body)
	}
	g.end()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// These need the connection itself, whatever the listener wraps it in.
func TestTheProcessSeesItsClientsLeaveAndLetsThemRead(t *testing.T) {
	arrived, left := make(chan struct{}, 1), make(chan time.Time, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		arrived <- struct{}{}
		<-r.Context().Done()
		left <- time.Now()
	}))
	defer upstream.Close()
	g := startGateway(t, map[string]string{"GATEWAY_UPSTREAM": upstream.URL})
	client, err := net.Dial("tcp", g.public.Addr().String()) //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-arrived
	began := time.Now()
	_ = client.Close()
	select {
	case at := <-left:
		if took := at.Sub(began); took > time.Second {
			t.Errorf("the upstream noticed after %v", took)
		}
	case <-time.After(5 * time.Second):
		t.Error("the upstream did not notice")
	}
	large := strings.Repeat("x", 8<<20)
	for range 5 {
		if response, _ := g.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(large), large); response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", response.StatusCode)
		}
	}
	g.end()
}
