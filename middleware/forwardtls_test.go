package middleware

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAnEncryptedUpstreamMustProveWhoItIs(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("X-Forwarded-Proto")) //nolint:gosec // no browser here
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	f := newFront(t, server.URL, nil)
	if response := f.get("/"); response.StatusCode != http.StatusBadGateway || !strings.Contains(response.body, "was not sent") {
		t.Errorf("unknown to the system: status %d, %s", response.StatusCode, response.body)
	}
	f = newFront(t, server.URL, nil)
	f.forward.tls.RootCAs = x509.NewCertPool()
	f.forward.tls.RootCAs.AddCert(server.Certificate())
	for range 3 {
		if response := f.get("/"); response.StatusCode != http.StatusOK || response.body != "HTTP/1.1 http" {
			t.Errorf("known: status %d, %s", response.StatusCode, response.body)
		}
	}
}

// newEncryptedFront is a front that speaks TLS, and how to reach it.
func newEncryptedFront(t *testing.T, upstream string) (*front, func() net.Conn) {
	t.Helper()
	keys := httptest.NewUnstartedServer(nil) // has a certificate
	keys.StartTLS()
	t.Cleanup(keys.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: keys.TLS.Certificates, MinVersion: tls.VersionTLS12}
	f := newFrontOn(t, tls.NewListener(Linger(listener), config), upstream, nil)
	return f, func() net.Conn {
		c := tls.Client(f.dial(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is made up
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func TestOverTLSEverythingWorksToo(t *testing.T) {
	left := make(chan struct{}, 1)
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Header.Get("X-Forwarded-Proto"))
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, "event")
			flush(w)
			<-r.Context().Done()
			left <- struct{}{}
		case "/refused":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		default:
			_, _ = io.WriteString(w, sumOf(r.Body))
		}
	})
	f, dial := newEncryptedFront(t, upstream)

	client := dial()
	r := bufio.NewReader(client)
	const length = 1 << 20
	_, _ = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", length)
	_, _ = io.Copy(client, noise(length))
	if response := f.read(r, "POST"); response.body != sumOf(noise(length)) || response.Header.Get("X-Proto") != "https" {
		t.Errorf("an upload: %s, %v", response.body, response.Header)
	}
	_, _ = io.WriteString(client, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
	readHead(r)
	if got, err := io.ReadAll(io.LimitReader(r, 5)); err != nil || string(got) != "event" {
		t.Errorf("events: %q, %v", got, err)
	}
	_ = client.Close()
	next(t, left, "the end upstream")

	client = dial()
	defer client.Close() //nolint:errcheck // over
	_, _ = io.WriteString(client, "POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n")
	go io.Copy(client, noise(10_000_000)) //nolint:errcheck // may fail
	if response := f.read(bufio.NewReader(client), "POST"); response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("an upload that is refused: status %d", response.StatusCode)
	}

	sockets, dial := newEncryptedFront(t, webSocketUpstream(t, left))
	client = dial()
	_, _ = io.WriteString(client, webSocketRequest)
	r = bufio.NewReader(client)
	readHead(r)
	_, _ = io.WriteString(client, "ping")
	if got, err := io.ReadAll(io.LimitReader(r, 9)); err != nil || string(got) != "helloping" {
		t.Errorf("a WebSocket: %q, %v", got, err)
	}
	_ = client.Close()
	next(t, left, "the end upstream")
	eventually(t, "the WebSocket is given back", func() bool { return len(sockets.forward.slots) == 0 })
	time.Sleep(10 * time.Millisecond)
}
