package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// attack is what somebody writes to a connection, and what must be seen there.
type attack struct {
	name   string
	text   string
	want   []int // the statuses of the answers in their order; 100 is one too
	closed bool  // and then the gateway closes; otherwise the connection still serves
	allow  string
	head   bool // it asks for answers without bodies
}

// malformed are attacks that get one answer, 400, and are not listened to further.
func malformed(name, text string) attack {
	return attack{name: name, text: text, want: []int{400}, closed: true}
}

// siege is a gateway under attack, and a lock that no attack may touch.
type siege struct {
	t testing.TB
	*gateway
	*client
	look   *redis.Client // of the store
	owner  uuid.UUID     // of the lock "key"
	mark   string        // stands in every part of every attack, and never comes back
	before vitals
}

func newSiege(t *testing.T) *siege {
	t.Helper()
	project := uuid.New()
	server := redistest.Start(t, inMemory...)
	g := start(t, settings{
		"GATEWAY_STORE":       server.URL(),
		"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 1_000_000)),
		"GATEWAY_LOG_LEVEL":   "debug",
	})
	s := &siege{t: t, gateway: g, client: g.client(t, project), look: server.Client(t), owner: uuid.New()}
	s.mark = "planted" + strings.ReplaceAll(uuid.NewString(), "-", "")
	s.acquire("key", s.owner, 3600).granted(http.StatusCreated)
	s.before = g.vitals()
	return s
}

// during is the same siege in a part of its test.
func (s *siege) during(t *testing.T) *siege {
	part, c := *s, *s.client
	c.t, part.t, part.client = t, t, &c
	return &part
}

// names are those of all records in the store. A request that touches another
// lock makes a new one.
func (s *siege) names() []string {
	s.t.Helper()
	names, err := s.look.Keys(s.t.Context(), "*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	own := func(name string) bool { return strings.Contains(name, uuid.Nil.String()) } // of the gateway, to look around
	names = slices.DeleteFunc(names, own)
	slices.Sort(names)
	return names
}

// The headers of an honest client.
func (s *siege) host() string   { return "Host: gateway\r\n" }
func (s *siege) bearer() string { return authorization + ": Bearer " + s.credential + "\r\n" }
func (s *siege) token() string  { return lockTokenHeader + ": " + s.owner.String() + "\r\n" }
func (s *siege) known() string  { return s.host() + s.bearer() + s.token() }

// marks are headers that mean nothing here.
func (s *siege) marks() string {
	return "User-Agent: " + s.mark + "\r\nX-" + s.mark + ": " + s.mark + "\r\nCookie: " + s.mark + "=" + s.mark + "\r\n"
}

// request is one with all that the owner of the lock "key" would send, and more.
func (s *siege) request(line string, headers ...string) string {
	return line + "\r\n" + s.known() + s.marks() + strings.Join(headers, "") + "\r\n"
}

// lengthOf is the header for a body.
func lengthOf(body string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(body)) }

const chunkedHeader = "Transfer-Encoding: chunked\r\n"

// chunks is a chunked body up to its trailer.
func chunks(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String() + "0\r\n"
}

// withstand runs attacks one after the other, each on a connection of its own.
func (s *siege) withstand(t *testing.T, attacks []attack) {
	t.Helper()
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			s := s.during(t)
			state, names := s.read("key").body, s.names()
			s.strike(t, a)
			if got := s.read("key").body; got != state {
				t.Errorf("it changed the lease from %s to %s", state, got)
			}
			if got := s.names(); !slices.Equal(got, names) {
				t.Errorf("it changed what is in the store from %v to %v", names, got)
			}
		})
	}
}

// strike makes one attack and judges the answers.
func (s *siege) strike(t *testing.T, a attack) {
	t.Helper()
	conn := connectTo(t, s.gateway)
	go func() { _, _ = io.WriteString(conn, a.text) }() // the gateway may close before it has read everything
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &seen))
	for i, status := range a.want {
		r, body, err := readAnswer(in, a.head)
		if err != nil {
			t.Fatalf("answer %d: %v, want %d; so far came %q", i+1, err, status, &seen)
		}
		if r.StatusCode != status {
			t.Fatalf("answer %d: %d %s, want %d", i+1, r.StatusCode, body, status)
		}
		if err := wellFormed(r, body, a.head); err != nil {
			t.Errorf("answer %d: %v", i+1, err)
		}
		if i == len(a.want)-1 && r.Header.Get("Allow") != a.allow {
			t.Errorf("it allows %q, want %q", r.Header.Get("Allow"), a.allow)
		}
	}
	if a.closed {
		wantEnd(t, in)
	} else {
		s.stillServes(t, conn, in)
	}
	if s.quoted(seen.String()) {
		t.Errorf("the answers quote the request: %q", &seen)
	}
}

// readAnswer reads one answer to its end.
func readAnswer(in *bufio.Reader, head bool) (*http.Response, []byte, error) {
	request := &http.Request{Method: http.MethodGet}
	if head {
		request.Method = http.MethodHead
	}
	r, err := http.ReadResponse(in, request)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(r.Body)
	return r, body, err
}

// codes of the answers that attacks can get.
var codes = map[int][]string{
	400: {"invalid_request"}, 401: {"unauthorized"}, 403: {"forbidden"}, 404: {"not_found"}, 405: {"method_not_allowed"},
	408: {"request_timeout"}, 409: {"lock_held", "lock_ownership_lost"}, 413: {"payload_too_large"}, 431: {"headers_too_large"},
}

// wellFormed says what is wrong with an answer in any case: an error is JSON in
// our form, whichever layer wrote it.
func wellFormed(r *http.Response, body []byte, head bool) error {
	switch {
	case r.StatusCode == http.StatusContinue:
		return nil
	case r.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%d %s", r.StatusCode, body)
	case uuid.Validate(r.Header.Get(requestIDHeader)) != nil:
		return fmt.Errorf("%d %s has the request id %q", r.StatusCode, body, r.Header.Values(requestIDHeader))
	case r.StatusCode < http.StatusBadRequest:
		return nil
	case r.Header.Get("Content-Type") != "application/json":
		return fmt.Errorf("%d %s is of type %q", r.StatusCode, body, r.Header.Get("Content-Type"))
	case head:
		return nil
	}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || p.Error == "" || !slices.Contains(codes[r.StatusCode], p.Code) {
		return fmt.Errorf("%d %s is not the error that it should be: %w", r.StatusCode, body, err)
	}
	return nil
}

// wantEnd fails the test unless nothing more comes. A reset is an end too: the
// gateway has closed before it had read everything.
func wantEnd(t *testing.T, in io.Reader) {
	t.Helper()
	more, err := io.ReadAll(in)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) || len(more) > 0 {
		t.Errorf("after the last answer came %q, %v; want the end", more, err)
	}
}

// stillServes asks on the same connection, and must get the answer to this
// question next: nothing of the attack was taken for a request.
func (s *siege) stillServes(t *testing.T, conn net.Conn, in *bufio.Reader) {
	t.Helper()
	id := uuid.NewString()
	if _, err := io.WriteString(conn, s.request("GET /locks/key HTTP/1.1", requestIDHeader, ": ", id, "\r\n")); err != nil {
		t.Fatal(err)
	}
	r, body, err := readAnswer(in, false)
	if err != nil || r.StatusCode != http.StatusOK || r.Header.Get(requestIDHeader) != id {
		t.Errorf("the next request on the connection: %v %s (%v)", r, body, err)
	}
}

// quoted finds what was planted.
func (s *siege) quoted(text string) bool {
	return strings.Contains(strings.ToLower(text), s.mark) || strings.Contains(text, s.credential)
}

// silent fails the test if a log or the admin listener quotes an attack. The
// audit log may tell of a bad lock key.
func (s *siege) silent(t *testing.T) {
	t.Helper()
	for _, line := range s.stderr.lines() {
		if s.quoted(line) {
			t.Errorf("the service log quotes a request: %s", line)
		}
	}
	for _, line := range s.stdout.lines() {
		r, err := parseRecord(line)
		if err != nil {
			t.Errorf("the audit log: %v, %s", err, line)
			continue
		}
		delete(r, "lock_key")
		if rest, err := json.Marshal(r); err != nil || s.quoted(string(rest)) {
			t.Errorf("the audit log quotes a request: %s", line)
		}
	}
	if metrics := s.metrics(); s.quoted(metrics) || strings.Contains(metrics, s.owner.String()) {
		t.Errorf("the metrics quote a request:\n%s", metrics)
	}
}

// vitals are how a process is, by its own metrics.
type vitals struct{ goroutines, memory float64 }

func (v vitals) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f MB", v.goroutines, v.memory/(1<<20))
}

func (g *gateway) vitals() vitals {
	g.t.Helper()
	text := g.metrics()
	number := func(name string) float64 {
		for line := range strings.Lines(text) {
			if value, found := strings.CutPrefix(line, name+" "); found {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil {
					g.t.Fatal(err)
				}
				return n
			}
		}
		g.t.Fatalf("the metrics do not tell %s", name)
		return 0
	}
	return vitals{number("go_goroutines"), number("process_resident_memory_bytes")}
}

func (g *gateway) metrics() string {
	g.t.Helper()
	r, err := http.Get(g.admin + "/metrics") //nolint:noctx // the admin listener of our own process
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// recovered fails the test unless the process ends near where it began.
func (g *gateway) recovered(t *testing.T, before vitals) {
	t.Helper()
	const moreGoroutines, moreMemory = 20, 200 << 20 // the race detector remembers much
	http.DefaultClient.CloseIdleConnections()
	var now vitals
	deadline := time.Now().Add(patience)
	for {
		now = g.vitals()
		if now.goroutines <= before.goroutines+moreGoroutines && now.memory <= before.memory+moreMemory {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the process had %v, and now %v", before, now)
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("before: %v; after: %v", before, now)
}

// healthy fails the test unless the process serves and is as it was.
func (g *gateway) healthy(t *testing.T, before vitals) {
	t.Helper()
	if status, body := g.ask("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	c, owner := g.client(t, uuid.New()), uuid.New()
	c.acquire("honest", owner, 60).granted(http.StatusCreated)
	c.release("honest", owner).want(http.StatusNoContent, "")
	c.http.CloseIdleConnections()
	g.recovered(t, before)
	for _, line := range g.stderr.lines() {
		if r, err := parseRecord(line); err != nil || r.text("level") == "ERROR" || strings.Contains(line, "internal") {
			t.Errorf("the service log complains, and perhaps not only once: %s", line)
			break
		}
	}
}
