package middleware

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/telemetry"
)

// patience is how long a test waits for what should come soon.
const patience = 5 * time.Second

var forwardSecret = bytes.Repeat([]byte("f"), auth.MinSecretBytes)

// front is a gateway on a real listener, before an upstream.
type front struct {
	t       testing.TB
	addr    string
	app     *fiber.App
	forward *Forward
}

func forwardSettings(upstream string) configs.Settings {
	scheme, host, _ := strings.Cut(upstream, "://")
	return configs.Settings{
		Upstream: configs.UpstreamURL{Scheme: scheme, Host: host}, UpstreamTimeout: patience, UpstreamMaxConns: 512,
		UpstreamIdleTimeout: time.Second, ProxyAuth: configs.ProxyAuthOptional, ProxyHost: configs.ProxyHostPass,
	}
}

func newFront(t testing.TB, upstream string, change func(*configs.Settings)) *front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newFrontOn(t, Linger(listener), upstream, change)
}

func newFrontOn(t testing.TB, listener net.Listener, upstream string, change func(*configs.Settings)) *front {
	t.Helper()
	settings := forwardSettings(upstream)
	if change != nil {
		change(&settings)
	}
	verifier, err := auth.NewVerifier(auth.Config{Secrets: [][]byte{forwardSecret}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := auth.NewCache(verifier, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	policy := func() *configs.Policy { return settings.Policy }
	f := &front{t: t, forward: NewForward(settings, &Locks{Credentials: credentials, Policy: policy, Refusals: telemetry.NewRefusals(time.Now)}, nil)}
	f.app = fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true, StreamRequestBody: true, BodyLimit: MaxBody,
		DisablePreParseMultipartForm: true, ReadBufferSize: MaxHeader,
		ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
		ErrorHandler: WriteError, DisableStartupMessage: true, DisableDefaultContentType: true,
	})
	f.app.Use(f.forward.Handle)
	f.app.Server().HeaderReceived = EarlyBody
	handle := f.app.Server().Handler
	f.app.Server().Handler = func(c *fasthttp.RequestCtx) {
		if method := string(c.Method()); !slices.Contains(f.app.Config().RequestMethods, method) {
			KeepMethod(c)
			c.Request.Header.SetMethod(fiber.MethodTrace)
		}
		handle(c)
	}
	f.addr = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- f.app.Listener(listener) }()
	t.Cleanup(func() {
		_ = f.forward.Close()
		if err := f.app.ShutdownWithTimeout(patience); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return f
}

// newUpstream is an upstream made of a handler.
func newUpstream(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

// rawUpstream serves each connection with serve and closes it then.
func rawUpstream(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // over
				serve(c)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// readHead reads a request or response up to its empty line, as it is.
func readHead(r *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}

// recorder is an upstream that keeps what it is asked, byte for byte, and
// answers 200.
func recorder(t testing.TB) (upstream string, heads chan string) {
	heads = make(chan string, 1000)
	return rawUpstream(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			head := readHead(r)
			if head == "" {
				return
			}
			heads <- head
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			if strings.HasPrefix(head, "HEAD ") {
				answer = strings.TrimSuffix(answer, "ok")
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}), heads
}

func (f *front) dial() net.Conn {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr) //nolint:noctx // loopback
	if err != nil {
		f.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// reply is a response, read to its end.
type reply struct {
	*http.Response
	body string
	err  error // of reading the body
}

func (a reply) problem() (p Problem) {
	_ = json.Unmarshal([]byte(a.body), &p) // what is none has no code
	return p
}

// raw sends a text as it is on a connection of its own, and reads one answer.
func (f *front) raw(text string) reply {
	f.t.Helper()
	c := f.dial()
	defer c.Close() //nolint:errcheck // over
	if _, err := io.WriteString(c, text); err != nil {
		f.t.Fatal(err)
	}
	return f.read(bufio.NewReader(c), strings.SplitN(text, " ", 2)[0])
}

func (f *front) read(r *bufio.Reader, method string) reply {
	f.t.Helper()
	response, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		f.t.Fatalf("no response: %v", err)
	}
	if response.StatusCode == http.StatusContinue {
		return f.read(r, method)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	return reply{Response: response, body: string(body), err: err}
}

// get sends a GET with further header lines.
func (f *front) get(target string, lines ...string) reply {
	f.t.Helper()
	return f.raw("GET " + target + " HTTP/1.1\r\nHost: api.example\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n")
}

// mint makes a credential.
func mint(t testing.TB, g auth.Grant) string {
	t.Helper()
	if g.Project == uuid.Nil && g.Kind != auth.Platform {
		g.Project = uuid.New()
	}
	g.IssuedAt = time.Now()
	if g.Kind == auth.AuthUser {
		g.ExpiresAt = g.IssuedAt.Add(time.Hour)
	}
	credential, err := auth.Mint(forwardSecret, g)
	if err != nil {
		t.Fatal(err)
	}
	return credential
}

// next takes what should be there soon.
func next[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("not reached")
	}
}

// parseLines maps the names of header lines, in lower case, to their values.
func parseLines(head string) map[string][]string {
	fields := map[string][]string{}
	for _, line := range strings.Split(head, "\r\n")[1:] {
		if name, value, found := strings.Cut(line, ":"); found {
			name = strings.ToLower(name)
			fields[name] = append(fields[name], strings.TrimSpace(value))
		}
	}
	return fields
}

var loopback = configs.Networks{netip.MustParsePrefix("127.0.0.0/8")}

// flush sends what a handler has written so far.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() } // the client sees whether it worked
