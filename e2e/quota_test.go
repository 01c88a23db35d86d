package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// quota is what the headers of a counted answer say.
type quota struct{ limit, remaining, reset int }

func (a answer) quota() quota {
	a.t.Helper()
	return quota{a.number("X-RateLimit-Limit"), a.number("X-RateLimit-Remaining"), a.number("X-RateLimit-Reset")}
}

// uncounted fails the test if the answer says anything of a quota.
func (a answer) uncounted() {
	a.t.Helper()
	for name := range a.header {
		if strings.HasPrefix(strings.ToLower(name), "x-ratelimit") {
			a.t.Fatalf("%v has the header %s", a, name)
		}
	}
}

// freshMinute waits until enough of a minute is left, and returns its end.
func freshMinute() (end int) {
	const enough = 15 * time.Second
	next := time.Now().Truncate(time.Minute).Add(time.Minute)
	if time.Until(next) < enough {
		time.Sleep(time.Until(next.Add(time.Millisecond)))
		next = next.Add(time.Minute)
	}
	return int(next.Unix())
}

func TestAMinuteAdmitsExactlyTheQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gateways int
		store    func(testing.TB) string
	}{
		"one gateway with a file":   {1, stores["bolt"]},
		"two gateways on one Redis": {2, stores["redis"]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 20
			project, other := uuid.New(), uuid.New()
			shared := settings{
				"GATEWAY_JWT_SECRET":  newSecret(),
				"GATEWAY_STORE":       c.store(t),
				"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, limit)),
			}
			var clients []*client
			for range c.gateways {
				clients = append(clients, start(t, shared).client(t, project))
			}
			end := freshMinute()
			l := clients[0].acquire("key", uuid.New(), 300).granted(http.StatusCreated)
			floodPastTheQuota(t, clients, limit, end)
			for _, c := range clients {
				nothingIsDone(t, c, limit, end)
				c.gateway.client(t, other).read("key").free()
			}
			retryAfter(t, clients, l, limit, end)
		})
	}
}

// floodPastTheQuota sends 100 requests at a time when one of the quota is used.
func floodPastTheQuota(t *testing.T, clients []*client, limit, end int) {
	t.Helper()
	answers := make([]answer, 100)
	errs := make([]error, len(answers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], errs[i] = clients[i%len(clients)].send(read("key")) })
	}
	all.Wait()
	remaining := map[int]int{} // answers that say so
	refused := 0
	for i, a := range answers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		q := a.quota()
		if q.limit != limit || q.reset != end {
			t.Fatalf("%v says %+v, want the limit %d until %d", a, q, limit, end)
		}
		if a.status == http.StatusTooManyRequests {
			refused++
			wantRateLimited(t, a, limit, end)
			continue
		}
		a.want(http.StatusOK, "")
		remaining[q.remaining]++
	}
	if admitted := len(answers) - refused; admitted != limit-1 {
		t.Errorf("%d of %d requests were admitted, want %d", admitted, len(answers), limit-1)
	}
	for left := range limit - 1 {
		if remaining[left] != 1 {
			t.Errorf("%d answers leave %d requests, want one: %v", remaining[left], left, remaining)
		}
	}
}

// nothingIsDone shows that past the quota nothing is performed, and that the
// quota comes before the rest of the request.
func nothingIsDone(t *testing.T, c *client, limit, end int) {
	t.Helper()
	for _, r := range []request{
		forceRelease("key"), read("key"), renew("key", uuid.New(), 60), acquire("new", uuid.New(), 60),
		acquire("not%20a%20key", uuid.New(), 60),
		acquire("key", uuid.New(), 4),
		acquire("key", uuid.Nil, 60),
		{method: http.MethodPut, path: "/locks/key"},
	} {
		wantRateLimited(t, c.do(r), limit, end)
	}
}

func wantRateLimited(t *testing.T, a answer, limit, end int) {
	t.Helper()
	a.want(http.StatusTooManyRequests, "lock_rate_limited").says(strconv.Itoa(limit))
	if q := a.quota(); q != (quota{limit, 0, end}) {
		t.Fatalf("%v says %+v", a, q)
	}
	ends := time.Unix(int64(end), 0)
	// A gateway that refuses from memory may be a little behind the store's clock, never ahead.
	soonest, latest := ceilSeconds(ends.Sub(a.received)), ceilSeconds(ends.Sub(a.sent.Add(-time.Second/2)))
	if got := a.number("Retry-After"); got < soonest || got > latest || got > 60 {
		t.Fatalf("%v with Retry-After %d, want %d to %d", a, got, soonest, latest)
	}
}

// retryAfter sleeps exactly as long as a refusal says, and finds everything as it was.
func retryAfter(t *testing.T, clients []*client, l lease, limit, end int) {
	t.Helper()
	refused := clients[0].read("key").want(http.StatusTooManyRequests, "lock_rate_limited")
	time.Sleep(time.Until(refused.received.Add(time.Duration(refused.number("Retry-After")) * time.Second)))
	for i, c := range clients {
		a := c.read("key")
		if got := a.held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
			t.Errorf("requests past the quota changed the lease %+v to %+v", l, got)
		}
		if q := a.quota(); q != (quota{limit, limit - 1 - i, end + 60}) {
			t.Errorf("%v in the next minute says %+v", a, q)
		}
	}
}

func TestWhatCountsAgainstTheQuota(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, g *gateway) {
		project, owner := uuid.New(), uuid.New()
		c := g.client(t, project)
		anon := g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.Anon, Project: project}))
		reader := g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, Permissions: []string{"files.read"}}))
		repeated := read("key").with(requestIDHeader, uuid.NewString())
		freshMinute()
		remaining := c.read("key").quota().remaining
		for _, row := range []struct {
			name   string
			client *client
			send   request
			status int
			code   string
			counts bool
		}{
			{"acquire", c, acquire("key", owner, 60), 201, "", true},
			{"acquire again", c, acquire("key", owner, 60), 201, "", true},
			{"acquire by another", c, acquire("key", uuid.New(), 60), 409, "lock_held", true},
			{"renew", c, renew("key", owner, 60), 200, "", true},
			{"renew by another", c, renew("key", uuid.New(), 60), 409, "lock_ownership_lost", true},
			{"read", c, read("key"), 200, "", true},
			{"a request id", c, repeated, 200, "", true},
			{"the same request id", c, repeated, 200, "", true},
			{"release", c, release("key", owner), 204, "", true},
			{"force release", c, forceRelease("key"), 204, "", true},
			{"bad key", c, read("a%20b"), 400, "invalid_request", true},
			{"bad lock token", c, acquire("key", uuid.Nil, 60), 400, "invalid_request", true},
			{"bad body", c, acquire("key", owner, 4), 400, "invalid_request", true},
			{"large body", c, request{"POST", "/locks/key/lease", strings.Repeat(" ", 4097), tokenHeader(owner)}, 413, "payload_too_large", true},
			{"bad method", c, request{method: "PUT", path: "/locks/key"}, 405, "method_not_allowed", true},
			{"no credential", c, read("key").with(authorization), 401, "unauthorized", false},
			{"bad credential", c, read("key").with(authorization, "Bearer x"), 401, "unauthorized", false},
			{"anon key", anon, read("key"), 403, "forbidden", false},
			{"service-role key without the permission", reader, read("key"), 403, "forbidden", false},
			{"another path", c, request{method: "GET", path: "/somewhere"}, 404, "not_found", false},
			{"another project", g.client(t, uuid.New()), read("key"), 200, "", false},
		} {
			a := row.client.do(row.send).want(row.status, row.code)
			if row.counts {
				remaining--
				if got := a.quota().remaining; got != remaining {
					t.Errorf("%s: %v leaves %d requests, want %d", row.name, a, got, remaining)
				}
			} else if row.status >= 400 {
				a.uncounted()
			}
		}
		if got := c.read("key").quota().remaining; got != remaining-1 {
			t.Errorf("what must not count left %d requests, want %d", got, remaining-1)
		}
	})
}
