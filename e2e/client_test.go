package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

const (
	authorization   = "Authorization"
	lockTokenHeader = "X-Volcano-Lock-Token"
	requestIDHeader = "X-Volcano-Request-Id"
)

// client speaks to one gateway, wherever it listens now, with one credential.
type client struct {
	t          testing.TB
	gateway    *gateway
	credential string // none: no Authorization header
	http       *http.Client
}

// client makes a client with a service-role key of a project.
func (g *gateway) client(t testing.TB, project uuid.UUID) *client {
	t.Helper()
	return g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project}))
}

// mint signs a credential with the gateway's secret.
func (g *gateway) mint(t testing.TB, grant auth.Grant) string {
	t.Helper()
	if grant.IssuedAt.IsZero() {
		grant.IssuedAt = time.Now()
	}
	credential, err := auth.Mint([]byte(g.settings["GATEWAY_JWT_SECRET"]), grant)
	if err != nil {
		t.Fatal(err)
	}
	return credential
}

func (g *gateway) clientWith(t testing.TB, credential string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: g.roots}}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{t: t, gateway: g, credential: credential}
	c.http = &http.Client{Transport: transport, Timeout: patience}
	return c
}

// request is what a client sends. What the client adds by itself, a test can
// replace or, with no values, take away.
type request struct {
	method, path string // the path as it stands in the request line
	body         string
	header       http.Header
}

func (c *client) acquire(key string, token uuid.UUID, ttl int) answer {
	c.t.Helper()
	return c.do(acquire(key, token, ttl))
}

func (c *client) renew(key string, token uuid.UUID, ttl int) answer {
	c.t.Helper()
	return c.do(renew(key, token, ttl))
}

func (c *client) release(key string, token uuid.UUID) answer {
	c.t.Helper()
	return c.do(release(key, token))
}

func (c *client) read(key string) answer {
	c.t.Helper()
	return c.do(read(key))
}

func (c *client) forceRelease(key string) answer {
	c.t.Helper()
	return c.do(forceRelease(key))
}

func acquire(key string, token uuid.UUID, ttl int) request {
	return request{http.MethodPost, "/locks/" + key + "/lease", ttlBody(ttl), tokenHeader(token)}
}

func renew(key string, token uuid.UUID, ttl int) request {
	return request{http.MethodPatch, "/locks/" + key + "/lease", ttlBody(ttl), tokenHeader(token)}
}

func release(key string, token uuid.UUID) request {
	return request{method: http.MethodDelete, path: "/locks/" + key + "/lease", header: tokenHeader(token)}
}

func read(key string) request { return request{method: http.MethodGet, path: "/locks/" + key} }

func forceRelease(key string) request {
	return request{method: http.MethodDelete, path: "/locks/" + key}
}

func ttlBody(ttl int) string { return fmt.Sprintf(`{"ttl_seconds":%d}`, ttl) }

func tokenHeader(token uuid.UUID) http.Header { return http.Header{lockTokenHeader: {token.String()}} }

// with is the request with a header set to these values, or without it.
func (r request) with(name string, values ...string) request {
	r.header = r.header.Clone()
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header[name] = values
	return r
}

// do sends a request that must be answered.
func (c *client) do(r request) answer {
	c.t.Helper()
	a, err := c.send(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// send sends a request, exactly as it is written, and reads the answer to its
// end. Unlike do it may be called from any goroutine.
func (c *client) send(r request) (answer, error) {
	a := answer{t: c.t, request: r}
	out, err := c.httpRequest(r)
	if err != nil {
		return a, err
	}
	a.sent = time.Now()
	in, err := c.http.Do(out)
	if err != nil {
		return a, err
	}
	defer in.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(in.Body)
	a.received = time.Now()
	a.status, a.header, a.body = in.StatusCode, in.Header, string(body)
	if strings.HasPrefix(r.path, "/locks/") && a.status != http.StatusNotFound {
		c.gateway.traffic.addAnswer(a.header.Get(requestIDHeader))
	}
	return a, err
}

func (c *client) httpRequest(r request) (*http.Request, error) {
	out, err := http.NewRequestWithContext(c.t.Context(), r.method, c.gateway.public, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	out.URL = &url.URL{Scheme: out.URL.Scheme, Host: out.URL.Host, Opaque: r.path}
	if strings.HasPrefix(r.path, "//") { // with a scheme before it an opaque URL would be sent
		out.URL.Opaque, out.URL.Path = "", r.path
	}
	if c.credential != "" {
		out.Header.Set(authorization, "Bearer "+c.credential)
	}
	maps.Copy(out.Header, r.header)
	for _, value := range out.Header[authorization] {
		_, credential, _ := strings.Cut(value, " ")
		c.gateway.traffic.add(credential)
	}
	for _, token := range out.Header[lockTokenHeader] {
		c.gateway.traffic.addToken(token)
	}
	return out, nil
}
