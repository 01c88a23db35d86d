package e2e

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// TestProtocol holds the gateway, over each kind of store, to what the
// protocol says of single requests. Every part has a project of its own.
func TestProtocol(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, g *gateway) {
		for _, part := range []struct {
			name string
			test func(*testing.T, *client)
		}{
			{"successes have exactly their shape", testShapes},
			{"owners and others get what the state table says", testStateTable},
			{"the new expiry is absolute and stops at the deadline", testExpiry},
			{"fencing tokens rise whichever way a lease ends", testFences},
			{"keys", testKeys},
			{"lock tokens", testLockTokens},
			{"lock tokens are compared by value", testLockTokenCase},
			{"request ids", testRequestIDs},
			{"bodies", testBodies},
			{"other paths and methods", testRoutes},
			{"checks run in order", testOrder},
		} {
			t.Run(part.name, func(t *testing.T) { part.test(t, g.client(t, uuid.New())) })
		}
		t.Run("projects never meet", func(t *testing.T) { testProjects(t, g) })
	})
}

func testShapes(t *testing.T, c *client) {
	const (
		expires = `"expires_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`
		fence   = `"fencing_token":\d{16}`
	)
	owner := uuid.New()
	for _, row := range []struct {
		name   string
		send   request
		status int
		body   string // regular expression for all of it
	}{
		{"acquire", acquire("key", owner, 60), 201, `\{` + expires + `,` + fence + `\}`},
		{"acquire again", acquire("key", owner, 60), 201, `\{` + expires + `,` + fence + `\}`},
		{"renew", renew("key", owner, 60), 200, `\{` + expires + `,` + fence + `\}`},
		{"read", read("key"), 200, `\{"held":true,` + expires + `,` + fence + `\}`},
		{"release", release("key", owner), 204, ``},
		{"release of a free lock", release("key", owner), 204, ``},
		{"read of a free lock", read("key"), 200, `\{"held":false\}`},
		{"force release of a free lock", forceRelease("key"), 204, ``},
	} {
		a := c.do(row.send).want(row.status, "")
		if !regexp.MustCompile(`^` + row.body + `$`).MatchString(a.body) {
			t.Errorf("%s: %v, want %s", row.name, a, row.body)
		}
	}
	c.acquire("key", owner, 60).granted(http.StatusCreated)
	if a := c.forceRelease("key").want(http.StatusNoContent, ""); a.body != "" {
		t.Errorf("force release: %v has a body", a)
	}
	c.read("key").free()
}

func testStateTable(t *testing.T, c *client) {
	owner, other := uuid.New(), uuid.New()
	const lost = "lock_ownership_lost"
	c.renew("key", owner, 60).want(409, lost)
	c.read("key").free()
	first := c.acquire("key", owner, 60).granted(201)
	wantAvailable(t, c.acquire("key", other, 60).want(409, "lock_held"), first.ExpiresAt.Add(time.Second))
	c.renew("key", other, 60).want(409, lost)
	c.release("key", other).want(409, lost)
	if got := c.read("key").held(); got.Fence != first.Fence || !got.ExpiresAt.Equal(first.ExpiresAt) {
		t.Fatalf("refused requests changed %+v to %+v", first, got)
	}
	again, renewed := c.acquire("key", owner, 60).granted(201), c.renew("key", owner, 60).granted(200)
	if again.Fence != first.Fence || renewed.Fence != first.Fence {
		t.Fatalf("one lease had the fencing tokens %d, %d and %d", first.Fence, again.Fence, renewed.Fence)
	}
	c.forceRelease("key").want(204, "")
	c.renew("key", owner, 60).want(409, lost)
	c.acquire("key", other, 60).granted(201)
	c.release("key", owner).want(409, lost)
	c.release("key", other).want(204, "")
	c.acquire("key", owner, 60).granted(201)
}

func testExpiry(t *testing.T, c *client) {
	const days90 = 90 * 24 * 60 * 60
	owner := uuid.New()
	for _, ttl := range []int{60, 3600, 5, 60} {
		wantExpiry(t, c.acquire("key", owner, ttl), 201, ttl)
		wantExpiry(t, c.renew("key", owner, ttl), 200, ttl)
	}
	long := wantExpiry(t, c.acquire("long", owner, days90), 201, days90)
	time.Sleep(10 * time.Millisecond) // so that an expiry without a deadline would be later
	for name, a := range map[string]answer{"renew": c.renew("long", owner, days90), "acquire": c.acquire("long", owner, days90)} {
		if got, err := a.parse(leaseMembers...); err != nil || !got.ExpiresAt.Equal(long.ExpiresAt) {
			t.Errorf("%s: %v (%v), want the deadline %v", name, a, err, long.ExpiresAt)
		}
	}
}

// wantExpiry checks that the lease ends this many seconds after the moment at
// which the gateway decided.
func wantExpiry(t *testing.T, a answer, status, ttl int) lease {
	t.Helper()
	l := a.granted(status)
	decided := l.ExpiresAt.Add(-time.Duration(ttl) * time.Second)
	if decided.Before(a.sent.Truncate(time.Millisecond)) || decided.After(a.received) {
		t.Errorf("%v with TTL %d was decided at %v, but sent at %v and answered at %v", a, ttl, decided, a.sent, a.received)
	}
	return l
}

func testFences(t *testing.T, c *client) {
	const mostInJavaScript = 1<<53 - 1
	owner := uuid.New()
	var last int64
	for name, end := range map[string]func(){
		"release":       func() { c.release("key", owner).want(204, "") },
		"force release": func() { c.forceRelease("key").want(204, "") },
		"release again": func() { c.release("key", owner).want(204, "") },
		"other keys": func() {
			c.acquire("other", owner, 60).granted(201)
			c.forceRelease("key").want(204, "")
			c.forceRelease("other").want(204, "")
		},
	} {
		l := c.acquire("key", owner, 60).granted(201)
		if l.Fence <= last || l.Fence > mostInJavaScript {
			t.Errorf("before %s: token %d after %d", name, l.Fence, last)
		}
		last = l.Fence
		end()
	}
}

func testRoutes(t *testing.T, c *client) {
	owner := uuid.New()
	l := c.acquire("key", owner, 60).granted(201)
	for _, row := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/", 404, "not_found", ""},
		{"GET", "/locks", 404, "not_found", ""},
		{"GET", "/lock/key", 404, "not_found", ""},
		{"GET", "/Locks/key", 404, "not_found", ""},
		{"DELETE", "/LOCKS/key", 404, "not_found", ""},
		{"DELETE", "/locks/key/", 404, "not_found", ""},
		{"DELETE", "//locks/key", 404, "not_found", ""},
		{"DELETE", "/locks//key", 404, "not_found", ""},
		{"DELETE", "/locks/key/LEASE", 404, "not_found", ""},
		{"DELETE", "/locks/key/lease/", 404, "not_found", ""},
		{"DELETE", "/locks/key//lease", 404, "not_found", ""},
		{"DELETE", "/locks/key/lease/lease", 404, "not_found", ""},
		{"DELETE", "/v1/locks/key", 404, "not_found", ""},
		{"DELETE", "/%6Cocks/key", 404, "not_found", ""},
		{"DELETE", "/x/../locks/key", 404, "not_found", ""},
		{"DELETE", "/locks/key/..", 404, "not_found", ""},
		{"GET", "/healthz", 404, "not_found", ""},
		{"GET", "/readyz", 404, "not_found", ""},
		{"GET", "/metrics", 404, "not_found", ""},
		{"GET", "/audit", 404, "not_found", ""},
		{"POST", "/locks/key", 405, "method_not_allowed", "GET, DELETE"},
		{"PUT", "/locks/key", 405, "method_not_allowed", "GET, DELETE"},
		{"PATCH", "/locks/key", 405, "method_not_allowed", "GET, DELETE"},
		{"OPTIONS", "/locks/key", 405, "method_not_allowed", "GET, DELETE"},
		{"BREW", "/locks/key", 405, "method_not_allowed", "GET, DELETE"},
		{"get", "/locks/key", 405, "method_not_allowed", "GET, DELETE"},
		{"GET", "/locks/key/lease", 405, "method_not_allowed", "POST, PATCH, DELETE"},
		{"PUT", "/locks/key/lease", 405, "method_not_allowed", "POST, PATCH, DELETE"},
		{"BREW", "/locks/key/lease", 405, "method_not_allowed", "POST, PATCH, DELETE"},
	} {
		a := c.do(request{row.method, row.path, ttlBody(5), tokenHeader(owner)})
		if err := a.check(row.status, row.code); err != nil {
			t.Error(err)
		}
		if got := a.header.Get("Allow"); got != row.allow {
			t.Errorf("%v allows %q, want %q", a, got, row.allow)
		}
	}
	if got := c.read("key").held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
		t.Errorf("requests to other places changed the lease %+v to %+v", l, got)
	}
}

// testOrder sends a request in which everything is wrong, and then repairs it
// part by part, in the order of the checks.
func testOrder(t *testing.T, c *client) {
	wrong := request{"PATCH", "/locks/no%20key/lease", "no body", http.Header{
		requestIDHeader: {"no id"}, authorization: {"no credential"}, lockTokenHeader: {"no token"},
	}}
	anon := "Bearer " + c.gateway.mint(t, auth.Grant{Kind: auth.Anon, Project: uuid.New()})
	for _, row := range []struct {
		repair func(r request) request
		status int
		code   string
		says   string
	}{
		{func(r request) request { return r }, 400, "invalid_request", requestIDHeader},
		{func(r request) request { return r.with(requestIDHeader) }, 401, "unauthorized", "Authorization"},
		{func(r request) request { return r.with(authorization, anon) }, 403, "forbidden", "anon key"},
		{func(r request) request { return r.with(authorization, "Bearer "+c.credential) }, 400, "invalid_request", "key"},
		{func(r request) request { r.path = "/locks/key/lease"; return r }, 400, "invalid_request", lockTokenHeader},
		{func(r request) request { return r.with(lockTokenHeader, uuid.NewString()) }, 400, "invalid_request", "body"},
		{func(r request) request { r.body = ttlBody(4); return r }, 400, "invalid_request", "ttl_seconds"},
		{func(r request) request { r.body = ttlBody(5); return r }, 409, "lock_ownership_lost", ""},
	} {
		wrong = row.repair(wrong)
		c.do(wrong).want(row.status, row.code).says(row.says)
	}
}

func testProjects(t *testing.T, g *gateway) {
	one, two := g.client(t, uuid.New()), g.client(t, uuid.New())
	owner := uuid.New()
	one.acquire("key", owner, 60).granted(201)
	two.read("key").free()
	two.renew("key", owner, 60).want(409, "lock_ownership_lost")
	two.forceRelease("key").want(204, "")
	two.release("key", owner).want(204, "")
	one.read("key").held()
	two.acquire("key", uuid.New(), 60).granted(201)
	one.release("key", owner).want(204, "")
	two.read("key").held()
}
