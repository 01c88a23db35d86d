package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

const contentionTTL = 5 // seconds, the shortest there is: leases have to end

// contest is 32 clients that fight for 4 keys through two gateways.
type contest struct {
	ends    time.Time
	clients []*client // of each gateway one
	keys    []string

	mu      sync.Mutex
	history []possession
	deaths  int
	errs    []error
}

func TestFightingClientsNeverOwnALockTogether(t *testing.T) {
	t.Parallel()
	duration := time.Minute
	if testing.Short() {
		duration = 15 * time.Second
	}
	c := newContest(t)
	c.ends = time.Now().Add(duration)
	var all sync.WaitGroup
	for range 32 {
		all.Go(c.fight)
	}
	all.Wait()
	for _, err := range append(c.errs, judgeHistory(c.history)...) {
		t.Error(err)
	}
	grants := map[string]int{}
	for _, p := range c.history {
		grants[p.key]++
	}
	t.Logf("leases: %v, deserted: %v", grants, c.deaths)
	for _, key := range c.keys {
		if least := int(duration / (6 * time.Second)); grants[key] < least {
			t.Errorf("%s was granted %d times, want at least %d", key, grants[key], least)
		}
	}
	if c.deaths == 0 {
		t.Error("no owner died, so no lease ended by itself")
	}
}

func newContest(t *testing.T) *contest {
	project := uuid.New()
	shared := settings{
		"GATEWAY_JWT_SECRET":  newSecret(),
		"GATEWAY_STORE":       redistest.Start(t, inMemory...).URL(),
		"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 1_000_000)),
	}
	c := &contest{keys: []string{"north", "east", "south", "west"}}
	for range 2 {
		c.clients = append(c.clients, start(t, shared).client(t, project))
	}
	return c
}

// quotaPolicy is a policy file that gives a project this many requests a minute.
func quotaPolicy(project uuid.UUID, limit int) string {
	return fmt.Sprintf("projects:\n  %s:\n    locks_per_minute: %d\n", project, limit)
}

// fight acquires one lock after the other, and does something with it.
func (c *contest) fight() {
	for time.Now().Before(c.ends) {
		key, owner := c.keys[rand.IntN(len(c.keys))], uuid.New()
		a, ok := c.send(acquire(key, owner, contentionTTL))
		switch {
		case !ok:
			return
		case a.problem().Code == "lock_held" && a.status == http.StatusConflict:
			pause(200 * time.Millisecond)
		case a.check(http.StatusCreated, "") != nil:
			c.fail(a.check(http.StatusCreated, ""))
			return
		default:
			c.possess(key, owner, a)
		}
	}
}

// possess lives through a lease: some owners die, the others renew a few times
// and release.
func (c *contest) possess(key string, owner uuid.UUID, granted answer) {
	l, err := granted.parse(leaseMembers...)
	c.fail(err)
	p := possession{key, owner, l.Fence, granted.received, l.ExpiresAt}
	defer func() { c.record(p) }()
	for range rand.IntN(4) {
		pause(400 * time.Millisecond)
		if !c.extend(&p) {
			return
		}
	}
	pause(100 * time.Millisecond)
	if rand.IntN(12) == 0 {
		c.died()
		return
	}
	if now := time.Now(); now.Before(p.until) {
		p.until = now
	}
	if a, ok := c.send(release(key, owner)); ok {
		c.fail(a.check(http.StatusNoContent, ""))
	}
}

// extend renews a lease, or acquires it again, which must come to the same.
func (c *contest) extend(p *possession) bool {
	call, status := renew, http.StatusOK
	if rand.IntN(2) == 0 {
		call, status = acquire, http.StatusCreated
	}
	a, ok := c.send(call(p.key, p.owner, contentionTTL))
	if !ok {
		return false
	}
	l, err := a.parse(leaseMembers...)
	if err := errors.Join(a.check(status, ""), err); err != nil {
		c.fail(err)
		return false
	}
	if l.Fence != p.fence || l.ExpiresAt.Before(p.until) {
		c.fail(fmt.Errorf("%v extended %v", a, *p))
	}
	p.until = l.ExpiresAt
	return true
}

// send goes through either gateway.
func (c *contest) send(r request) (answer, bool) {
	a, err := c.clients[rand.IntN(len(c.clients))].send(r)
	c.fail(err)
	return a, err == nil
}

func (c *contest) fail(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *contest) record(p possession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, p)
}

func (c *contest) died() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths++
}

// pause waits for a random time up to most.
func pause(most time.Duration) { time.Sleep(rand.N(most)) }
