package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/configs/certtest"
)

// startTLS starts a gateway with the first of these pairs, whose clients trust all of them.
func startTLS(t *testing.T, given settings, pairs ...certtest.Pair) *gateway {
	t.Helper()
	dir := t.TempDir()
	all := settings{"GATEWAY_TLS_CERT": filepath.Join(dir, "tls.crt"), "GATEWAY_TLS_KEY": filepath.Join(dir, "tls.key")}
	maps.Copy(all, given)
	g := command(t, all, "serve")
	g.roots = x509.NewCertPool()
	for _, pair := range pairs {
		g.roots.AppendCertsFromPEM([]byte(pair.Cert))
		_, secret, _ := strings.Cut(pair.Key, "\n")
		g.traffic.add(strings.Split(secret, "\n")[0])
	}
	g.install(pairs[0])
	g.run()
	return g
}

// install writes a pair into its files.
func (g *gateway) install(pair certtest.Pair) {
	g.t.Helper()
	err := errors.Join(
		os.WriteFile(g.settings["GATEWAY_TLS_CERT"], []byte(pair.Cert), 0o600),
		os.WriteFile(g.settings["GATEWAY_TLS_KEY"], []byte(pair.Key), 0o600))
	if err != nil {
		g.t.Fatal(err)
	}
}

// handshake is what a new connection negotiates.
func (g *gateway) handshake(t *testing.T, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	config.RootCAs, config.ServerName = g.roots, "gateway.example"
	conn := tls.Client(connectTo(t, g), config)
	err := conn.HandshakeContext(t.Context())
	return conn.ConnectionState(), err
}

// serial tells which certificate the gateway shows.
func (g *gateway) serial(t *testing.T) string {
	t.Helper()
	state, err := g.handshake(t, &tls.Config{MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	return certtest.Serial(state.PeerCertificates[0])
}

func TestLocksOverTLS(t *testing.T) {
	t.Parallel()
	g := startTLS(t, nil, certtest.Valid(t))
	c, owner := g.client(t, uuid.New()), uuid.New()
	c.acquire("key", owner, 60).granted(http.StatusCreated)
	c.release("key", owner).want(http.StatusNoContent, "")
	c.read("key").free()
	if status, body := g.ask("/readyz"); status != http.StatusOK {
		t.Errorf("the admin listener, which has no TLS: %d %s", status, body)
	}
}

func TestWhatTLSNegotiates(t *testing.T) {
	t.Parallel()
	g := startTLS(t, nil, certtest.Valid(t))
	for name, c := range map[string]struct {
		version  uint16   // the only one that the client speaks; 0: any
		offers   []string // by ALPN
		protocol string   // of these, the one chosen
		refused  bool
	}{
		"TLS 1.1":            {tls.VersionTLS11, nil, "", true},
		"TLS 1.2":            {tls.VersionTLS12, nil, "", false},
		"TLS 1.3":            {tls.VersionTLS13, nil, "", false},
		"HTTP/2 or HTTP/1.1": {0, []string{"h2", "http/1.1"}, "http/1.1", false},
		"HTTP/2 only":        {0, []string{"h2"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{MinVersion: c.version, MaxVersion: c.version, NextProtos: c.offers}
			state, err := g.handshake(t, config)
			if (err != nil) != c.refused || !c.refused && state.NegotiatedProtocol != c.protocol {
				t.Errorf("protocol %q, error %v; want %q, refused: %v", state.NegotiatedProtocol, err, c.protocol, c.refused)
			}
		})
	}
}

func TestPlainHTTPOnATLSListenerGetsNothing(t *testing.T) {
	t.Parallel()
	g := startTLS(t, nil, certtest.Valid(t))
	conn := connectTo(t, g)
	if _, err := io.WriteString(conn, "GET /locks/key HTTP/1.1\r\nHost: gateway\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) || strings.Contains(string(answer), "HTTP/1.1 2") {
		t.Errorf("it was answered with %q, %v; want a closed connection", answer, err)
	}
	g.client(t, uuid.New()).read("key").free()
}

// TestARenewedCertificateIsShownWithoutARestart renews while requests are made: none may fail.
func TestARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	t.Parallel()
	pairs := []certtest.Pair{certtest.Valid(t), certtest.Valid(t), certtest.Valid(t)}
	project := uuid.New()
	g := startTLS(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 1_000_000))}, pairs...)
	kept, fresh := g.client(t, project), g.client(t, project)
	stopKept, stopFresh := readAllAlong(t, kept), readAllAlong(t, closing(fresh))
	for _, pair := range pairs[1:] {
		g.install(pair)
		eventually(t, "the renewed certificate", func() bool { return g.serial(t) == pair.Serial })
	}
	g.install(certtest.Pair{Cert: pairs[0].Cert, Key: pairs[1].Key})
	refused := func() bool {
		_, found := g.stderr.logged("certificate refused: the last good one stays in force")
		return found
	}
	eventually(t, "the complaint about a bad renewal", refused)
	if got := g.serial(t); got != pairs[2].Serial {
		t.Errorf("after a bad renewal the certificate is %s, want %s", got, pairs[2].Serial)
	}
	stopKept()
	stopFresh()
}

// closing is a client that makes a connection for each request.
func closing(c *client) *client {
	c.http.Transport.(*http.Transport).DisableKeepAlives = true //nolint:errcheck // clientWith made it
	return c
}

// TestHangupReadsTheCertificate leaves the files as they are, which the gateway would not notice by itself.
func TestHangupReadsTheCertificate(t *testing.T) {
	t.Parallel()
	g := startTLS(t, nil, certtest.Valid(t))
	if err := g.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the certificate again", func() bool { return strings.Count(g.stderr.String(), "certificate in force") == 2 })
}

func TestHandshakesThatDoNotEndAreClosed(t *testing.T) {
	t.Parallel()
	g := startTLS(t, nil, certtest.Valid(t))
	for name, sends := range map[string]string{"nothing": "", "half a greeting": "\x16\x03\x01\x02\x00\x01"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connectTo(t, g) // with a deadline
			if _, err := io.WriteString(conn, sends); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err := io.ReadAll(conn)
			if took := time.Since(began); errors.Is(err, os.ErrDeadlineExceeded) || took > 10*time.Second+slack {
				t.Errorf("closed after %v, %v", took, err)
			}
		})
	}
}

func TestTLSConnectionsDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	g := startTLS(t, settings{"GATEWAY_SHUTDOWN_TIMEOUT": "25s"}, certtest.Valid(t))
	g.client(t, uuid.New()).read("key").free() // and keeps its connection
	stopsWithin(t, g, slack, syscall.SIGTERM)
}

func TestWrongCertificatesDoNotStart(t *testing.T) {
	t.Parallel()
	pair := certtest.Valid(t)
	cert, other := writeFile(t, "tls.crt", pair.Cert), writeFile(t, "other.key", certtest.Valid(t).Key)
	for name, c := range map[string]struct {
		wrong settings
		word  string
	}{
		"no key":       {settings{"GATEWAY_TLS_CERT": cert}, "GATEWAY_TLS_KEY"},
		"another key":  {settings{"GATEWAY_TLS_CERT": cert, "GATEWAY_TLS_KEY": other}, "does not match"},
		"missing file": {settings{"GATEWAY_TLS_CERT": "missing.crt", "GATEWAY_TLS_KEY": other}, "missing.crt"},
	} {
		for _, args := range []string{"serve", "check"} {
			t.Run(name+", "+args, func(t *testing.T) {
				s := maps.Clone(c.wrong)
				s["GATEWAY_JWT_SECRET"] = newSecret()
				wantRefusal(t, call(t, s, "", args), "GATEWAY_TLS_", c.word)
			})
		}
	}
}
