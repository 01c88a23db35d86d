package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/api"
	"github.com/project-locks/gateway/api/apitest"
	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// operations are valid requests, by the names that the document gives them.
var operations = map[string]func(key string, token uuid.UUID) request{
	"acquire":      func(key string, token uuid.UUID) request { return acquire(key, token, 60) },
	"renew":        func(key string, token uuid.UUID) request { return renew(key, token, 60) },
	"release":      release,
	"read":         func(key string, _ uuid.UUID) request { return read(key) },
	"forceRelease": func(key string, _ uuid.UUID) request { return forceRelease(key) },
}

// answers are what gateways answered to each operation.
type answers struct {
	t        *testing.T
	document *apitest.Document
	mu       sync.Mutex
	all      []apitest.Answer
	left     int // parts of the document that were left out
}

func (s *answers) add(operation string, status int, header http.Header, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, apitest.Answer{Operation: operation, Status: status, Header: header, Body: body})
}

// ask sends a request that has to be answered with this status.
func (s *answers) ask(c *client, operation string, r request, status int) {
	s.t.Helper()
	a := c.do(r)
	if a.status != status {
		s.t.Errorf("%s: %v, want %d", operation, a, status)
	}
	s.add(operation, a.status, a.header, a.body)
}

// having are the answers that a predicate holds for.
func (s *answers) having(holds func(apitest.Answer) bool) (some []apitest.Answer) {
	for _, a := range s.all {
		if holds(a) {
			some = append(some, a)
		}
	}
	return some
}

// TestTheDocumentSaysWhatIsAnswered provokes every status of every operation, and holds the answers
// against the document; then it leaves out each part of the document in turn, which some answer has to
// show. Only 500 is missing, for which something has to break: package middleware does that.
func TestTheDocumentSaysWhatIsAnswered(t *testing.T) {
	t.Parallel()
	s := &answers{t: t, document: apitest.Open(t)}
	t.Run("provoke", func(t *testing.T) {
		for name, provoke := range map[string]func(*testing.T){
			"granted and refused": s.provokeVerdicts, "wrong requests": s.provokeRefusals, "outage": s.provokeOutage, "late": s.provokeLateness, "slow": s.provokeTimeouts,
			"forwarded": s.provokeForwarded, "forwarded, with a slow client": s.provokeSlowBody,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				provoke(t)
			})
		}
	})
	for _, a := range s.all {
		if err := s.document.Check(a); err != nil {
			t.Errorf("%v\n%s", err, a.Body)
		}
	}
	s.wantEveryStatus()
	s.wantEveryPartNeeded()
	t.Logf("%d answers, %d parts of the document", len(s.all), s.left)
}

func (s *answers) provokeVerdicts(t *testing.T) {
	c := start(t, nil).client(t, uuid.New())
	owner, other := uuid.New(), uuid.New()
	c.acquire("ending", owner, 5).granted(http.StatusCreated)
	ending := time.Now()
	s.ask(c, "acquire", acquire("key", owner, 60), http.StatusCreated)
	s.ask(c, "read", read("key"), http.StatusOK)
	s.ask(c, "read", read("free"), http.StatusOK)
	s.ask(c, "renew", renew("key", owner, 60), http.StatusOK)
	s.ask(c, "acquire", acquire("key", other, 60), http.StatusConflict)
	s.ask(c, "renew", renew("key", other, 60), http.StatusConflict)
	s.ask(c, "release", release("key", other), http.StatusConflict)
	s.ask(c, "release", release("key", owner), http.StatusNoContent)
	s.ask(c, "forceRelease", forceRelease("key"), http.StatusNoContent)
	time.Sleep(time.Until(ending.Add(4500 * time.Millisecond))) // the closing second
	s.ask(c, "acquire", acquire("ending", owner, 5), http.StatusConflict)
}

func (s *answers) provokeRefusals(t *testing.T) {
	project, small, suspended := uuid.New(), uuid.New(), uuid.New()
	g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", fmt.Sprintf(
		"projects: {%s: {locks_per_minute: 1}, %s: {suspended: true}}", small, suspended))})
	c, nobody := g.client(t, project), g.clientWith(t, "")
	anon := g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.Anon, Project: project}))
	for name, valid := range operations {
		r := valid("key", uuid.New())
		s.ask(c, name, r.with(requestIDHeader, "malformed"), http.StatusBadRequest)
		s.ask(c, name, valid("no%20key", uuid.New()), http.StatusBadRequest)
		s.ask(nobody, name, r, http.StatusUnauthorized)
		s.ask(anon, name, r, http.StatusForbidden)
		s.ask(g.client(t, suspended), name, r, http.StatusForbidden)
		s.ask(c, name, valid("not/a/key", uuid.New()), http.StatusNotFound)
		s.ask(c, name, request{method: http.MethodPut, path: r.path}, http.StatusMethodNotAllowed)
		head := r.method + " " + r.path + " HTTP/1.1\r\n"
		s.read(t, connectTo(t, g), name, head+"\r\n", http.StatusBadRequest) // without a host
		s.read(t, connectTo(t, g), name, head+strings.Repeat("x", 16<<10-len(head)), http.StatusRequestHeaderFieldsTooLarge)
		if r.body != "" {
			r.body = strings.Repeat(" ", 4097)
			s.ask(c, name, r, http.StatusRequestEntityTooLarge)
		}
		s.askPastTheQuota(g.client(t, small), name, valid("key", uuid.New()))
	}
}

// askPastTheQuota may meet the beginning of a minute once.
func (s *answers) askPastTheQuota(c *client, name string, r request) {
	for range 3 {
		if a := c.do(r); a.status == http.StatusTooManyRequests {
			s.add(name, a.status, a.header, a.body)
			return
		}
	}
	s.t.Errorf("%s: three requests, and the quota is one", name)
}

func (s *answers) provokeTimeouts(t *testing.T) {
	g := start(t, nil)
	var all sync.WaitGroup
	for name, valid := range operations {
		r, conn := valid("key", uuid.New()), connectTo(t, g)
		all.Go(func() {
			s.read(t, conn, name, r.method+" "+r.path+" HTTP/1.1\r\nHost: gateway\r\n", http.StatusRequestTimeout)
		})
	}
	all.Wait()
}

// read writes a text to a connection and reads one answer.
func (s *answers) read(t *testing.T, conn io.ReadWriter, name, text string, status int) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
		return
	}
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer a.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != status {
		t.Errorf("%s: %d %s, %v; want %d", name, a.StatusCode, body, err, status)
	}
	s.add(name, a.StatusCode, a.Header, string(body))
}

func (s *answers) provokeOutage(t *testing.T) {
	o := newOutage(t)
	o.recovers()
	o.redis.Signal(t, syscall.SIGSTOP)
	s.ask(o.client, "acquire", acquire("key", uuid.New(), 60), http.StatusServiceUnavailable)
	o.redis.Signal(t, syscall.SIGCONT)
	o.redis.Kill()
	for name, valid := range operations {
		s.ask(o.client, name, valid("key", uuid.New()), http.StatusServiceUnavailable)
	}
}

// provokeLateness gets the answer to a request that was counted, and whose lease has ended meanwhile.
func (s *answers) provokeLateness(t *testing.T) {
	way := newLine(t, redistest.Start(t).Addr)
	c := start(t, settings{"GATEWAY_STORE": way.url(), "GATEWAY_STORE_TIMEOUT": "20s"}).client(t, uuid.New())
	c.read("key").free()
	way.trap.Store(&trap{text: "late", reply: func() bool {
		time.Sleep(6 * time.Second) // the lease lasts 5
		return true
	}})
	s.ask(c, "acquire", acquire("late", uuid.New(), 5), http.StatusServiceUnavailable)
}

// provokeForwarded gets what a gateway answers itself to requests that are not for locks.
func (s *answers) provokeForwarded(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			<-r.Context().Done() // until the gateway has lost its patience
		}
	}))
	t.Cleanup(upstream.Close)
	counted, small := uuid.New(), uuid.New()
	given := settings{
		"GATEWAY_UPSTREAM": upstream.URL, "GATEWAY_UPSTREAM_TIMEOUT": "100ms",
		"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", fmt.Sprintf(
			"default: {when_store_unavailable: refuse}\nprojects: {%s: {requests_per_minute: 1000}, %s: {requests_per_minute: 1}}", counted, small)),
	}
	g := start(t, given)
	c := g.client(t, counted)
	s.ask(c, apitest.Forwarded, pages("/page").with(requestIDHeader, "malformed"), http.StatusBadRequest)
	s.ask(g.clientWith(t, "nonsense"), apitest.Forwarded, pages("/page"), http.StatusUnauthorized)
	s.ask(c, apitest.Forwarded, pages("/Locks/key"), http.StatusNotFound)
	s.ask(c, apitest.Forwarded, pages("/page"), http.StatusGatewayTimeout)
	s.askPastTheQuota(g.client(t, small), apitest.Forwarded, pages("/page"))
	head := "POST /page HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + c.credential + "\r\n"
	s.read(t, connectTo(t, g), apitest.Forwarded, head+strings.Repeat("x", 16<<10-len(head)), http.StatusRequestHeaderFieldsTooLarge)
	s.read(t, connectTo(t, g), apitest.Forwarded, head+"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n", http.StatusBadRequest)

	upstream.Close()
	s.ask(c, apitest.Forwarded, pages("/page"), http.StatusBadGateway)

	given["GATEWAY_STORE"] = "redis://127.0.0.1:1"
	s.ask(start(t, given).client(t, counted), apitest.Forwarded, pages("/page"), http.StatusServiceUnavailable)
}

// provokeSlowBody sends a part of a body.
func (s *answers) provokeSlowBody(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(upstream.Close)
	project := uuid.New()
	g := start(t, settings{
		"GATEWAY_UPSTREAM":    upstream.URL,
		"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", fmt.Sprintf("projects: {%s: {requests_per_minute: 1000}}", project)),
	})
	conn := connectTo(t, g)
	if err := conn.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	s.read(t, conn, apitest.Forwarded, "POST /page HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer "+
		g.client(t, project).credential+"\r\nContent-Length: 100000\r\n\r\nx", http.StatusRequestTimeout)
}

// wantEveryStatus compares what is documented with what was seen.
func (s *answers) wantEveryStatus() {
	seen := map[string]map[string]bool{}
	for _, a := range s.all {
		if seen[a.Operation] == nil {
			seen[a.Operation] = map[string]bool{"500": true} // see above
		}
		seen[a.Operation][strconv.Itoa(a.Status)] = true
	}
	documented := s.document.Operations()
	if want := append(slices.Collect(maps.Keys(operations)), apitest.Forwarded); !slices.Equal(slices.Sorted(maps.Keys(documented)), slices.Sorted(slices.Values(want))) {
		s.t.Errorf("documented operations: %v", documented)
	}
	for operation, statuses := range documented {
		if got := slices.Sorted(maps.Keys(seen[operation])); !slices.Equal(got, statuses) {
			s.t.Errorf("%s: seen %v, documented %v", operation, got, statuses)
		}
	}
}

// TestTheDocumentSaysWhatIsAccepted sends what the document allows, and what it does not: the gateway
// has to agree.
func TestTheDocumentSaysWhatIsAccepted(t *testing.T) {
	t.Parallel()
	document := apitest.Open(t)
	c := start(t, nil).client(t, uuid.New())
	lowest, highest := acquire("key", uuid.New(), 5), acquire("key", uuid.New(), 7776000)
	withBody := func(text string) request { return request{lowest.method, lowest.path, text, lowest.header} }
	for name, row := range map[string]struct {
		request
		refused int // 0: allowed
	}{
		"shortest":                {lowest, 0},
		"longest":                 {highest, 0},
		"shorter":                 {acquire("key", uuid.New(), 4), 400},
		"longer":                  {acquire("key", uuid.New(), 7776001), 400},
		"text for a number":       {withBody(`{"ttl_seconds":"5"}`), 400},
		"a fraction":              {withBody(`{"ttl_seconds":5.5}`), 400},
		"nothing":                 {withBody(`{}`), 400},
		"another member":          {withBody(`{"ttl_seconds":5,"x":1}`), 400},
		"no body":                 {withBody(""), 400},
		"every character":         {read("AZaz09._:-"), 0},
		"longest key":             {read(strings.Repeat("k", 128)), 0},
		"longer key":              {read(strings.Repeat("k", 129)), 400},
		"another character":       {read("k%20y"), 400},
		"a dot":                   {read("%2e"), 400},
		"two dots":                {read("%2e%2e"), 400},
		"three dots":              {read("..."), 0},
		"dots and more":           {read("..a."), 0},
		"no lock token":           {lowest.with(lockTokenHeader), 400},
		"no UUID":                 {lowest.with(lockTokenHeader, "token"), 400},
		"upper case":              {release("free", uuid.New()).with(lockTokenHeader, strings.ToUpper(uuid.NewString())), 0},
		"read needs no token":     {read("key"), 0},
		"request id":              {read("key").with(requestIDHeader, uuid.NewString()), 0},
		"malformed request id":    {read("key").with(requestIDHeader, "id"), 400},
		"without a credential":    {read("key").with(authorization), 401},
		"another kind of proof":   {read("key").with(authorization, "Basic eDp5"), 401},
		"force release, no token": {forceRelease("key"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := c.httpRequest(row.request)
			if err != nil {
				t.Fatal(err)
			}
			if out.URL, err = url.Parse(row.path); err != nil {
				t.Fatal(err)
			}
			out.Header.Set("Content-Type", "application/json")
			a := c.do(row.request)
			if a.status != row.refused && (row.refused != 0 || a.status >= 500 || a.status == 400) {
				t.Errorf("the gateway: %v, want %d", a, row.refused)
			}
			if err := document.CheckRequest(out); (err != nil) != (row.refused != 0) {
				t.Errorf("the document: %v; want it refused: %v", err, row.refused != 0)
			}
		})
	}
}

func TestTheDocumentIsOnTheAdminListenerOnly(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	for address, status := range map[string]int{g.admin: http.StatusOK, g.public: http.StatusNotFound} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/openapi.yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		isIt := bytes.Equal(body, api.Document) && a.Header.Get("Content-Type") == "application/yaml"
		if err != nil || a.StatusCode != status || isIt != (status == http.StatusOK) {
			t.Errorf("%s: %d %s, %v", address, a.StatusCode, a.Header.Get("Content-Type"), err)
		}
	}
}

// wantEveryPartNeeded leaves out one part of the document after the other. Each time there must be an
// answer that the rest does not describe.
func (s *answers) wantEveryPartNeeded() {
	described := map[*openapi3.Response][]apitest.Answer{}
	for operation := range s.document.Operations() {
		responses := s.document.Responses(operation)
		for status, response := range responses.Map() {
			if status == "500" {
				continue
			}
			some := s.having(func(a apitest.Answer) bool { return a.Operation == operation && strconv.Itoa(a.Status) == status })
			described[response.Value] = append(described[response.Value], some...)
			responses.Delete(status)
			s.wantRefused("the status "+status+" of "+operation, some)
			responses.Set(status, response)
		}
	}
	for response, some := range described {
		s.wantResponseNeeded(response, some)
	}
	for name, schema := range s.document.Spec.Components.Schemas {
		s.wantPropertiesNeeded(name, schema.Value.Properties)
	}
	s.wantCodesNeeded(s.document.Spec.Components.Schemas["Code"].Value)
}

func (s *answers) wantResponseNeeded(response *openapi3.Response, some []apitest.Answer) {
	for name, header := range response.Headers {
		delete(response.Headers, name)
		s.wantRefused("the header "+name+" of: "+*response.Description, some)
		response.Headers[name] = header
	}
	if content := response.Content; content != nil {
		response.Content = nil
		s.wantRefused("the body of: "+*response.Description, some)
		response.Content = content
	}
}

func (s *answers) wantPropertiesNeeded(schema string, properties openapi3.Schemas) {
	for name, property := range properties {
		delete(properties, name)
		s.wantRefused("the member "+name+" of "+schema, s.saying(`"`+name+`"`))
		properties[name] = property
	}
}

func (s *answers) wantCodesNeeded(schema *openapi3.Schema) {
	all := schema.Enum
	for i, code := range all {
		if code == "internal" {
			continue
		}
		schema.Enum = slices.Delete(slices.Clone(all), i, i+1)
		s.wantRefused(fmt.Sprint("the code ", code), s.saying(fmt.Sprintf("%q", code)))
	}
	schema.Enum = all
}

// saying are the answers with a text in them.
func (s *answers) saying(text string) []apitest.Answer {
	return s.having(func(a apitest.Answer) bool { return strings.Contains(a.Body, text) })
}

func (s *answers) wantRefused(without string, some []apitest.Answer) {
	s.t.Helper()
	s.left++
	if !slices.ContainsFunc(some, func(a apitest.Answer) bool { return s.document.Check(a) != nil }) {
		s.t.Errorf("without %s, all of %d answers are still as the document says", without, len(some))
	}
}
