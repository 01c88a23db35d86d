package e2e

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// promises are what a gateway has acknowledged, by key: the lease, or that the
// lock is free.
type promises struct {
	mu     sync.Mutex
	leases map[string]lease // the zero lease: released
}

func (p *promises) keep(key string, l lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leases[key] = l
}

func (p *promises) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.leases)
}

// drop forgets a key of which nobody knows what became of it.
func (p *promises) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leases, key)
}

func TestWhatWasAcknowledgedSurvivesKill(t *testing.T) {
	t.Parallel()
	project := uuid.New()
	g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 1_000_000))})
	c := g.client(t, project)
	made := &promises{leases: map[string]lease{}}
	var last int64
	for round := range 5 {
		workUntilKilled(t, c, made)
		g.run()
		for key, l := range made.leases {
			wantKept(t, c, key, l)
			last = max(last, l.Fence)
		}
		if l := c.acquire(uuid.NewString(), uuid.New(), 60).granted(http.StatusCreated); l.Fence <= last {
			t.Fatalf("round %d: token %d after the restart, %d before", round, l.Fence, last)
		}
	}
	t.Logf("%d promises were kept", len(made.leases))
}

// workUntilKilled has clients work in parallel and kills the gateway in the middle of it.
func workUntilKilled(t *testing.T, c *client, made *promises) {
	t.Helper()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for keepWorking(t, c, made) {
			}
		})
	}
	enough := made.number() + 50
	eventually(t, "promises to keep", func() bool { return made.number() > enough })
	pause(100 * time.Millisecond)
	c.gateway.kill(&all)
}

// keepWorking acquires a lock and then keeps, renews or releases it. It is
// false once the gateway is gone.
func keepWorking(t *testing.T, c *client, made *promises) bool {
	key, owner := uuid.NewString(), uuid.New()
	steps := []struct {
		send   request
		status int
	}{
		{acquire(key, owner, 3600), http.StatusCreated},
		{renew(key, owner, 7200), http.StatusOK},
		{release(key, owner), http.StatusNoContent},
	}
	for _, step := range steps[:1+rand.IntN(len(steps))] {
		a, err := c.send(step.send)
		if err != nil {
			made.drop(key)
			return false
		}
		var l lease
		err = a.check(step.status, "")
		if step.status != http.StatusNoContent && err == nil {
			l, err = a.parse(leaseMembers...)
		}
		if err != nil {
			t.Error(err)
			return false
		}
		made.keep(key, l)
	}
	return true
}

func wantKept(t *testing.T, c *client, key string, l lease) {
	t.Helper()
	a := c.read(key)
	if l == (lease{}) {
		a.free()
		return
	}
	if got := a.held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
		t.Fatalf("after the restart %+v, acknowledged was %+v", got, l)
	}
}

func TestASecondGatewayOnTheFileEndsAtOnce(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	file := strings.TrimPrefix(g.settings["GATEWAY_STORE"], "bolt://")
	for _, args := range []string{"serve", "check"} {
		wantRefusal(t, call(t, g.settings, "", args), file, "in use by another process")
	}
	g.client(t, uuid.New()).acquire("key", uuid.New(), 60).granted(http.StatusCreated)
}

func TestARestartKeepsLeases(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, g *gateway) {
		c, owner := g.client(t, uuid.New()), uuid.New()
		l := c.acquire("key", owner, 3600).granted(http.StatusCreated)
		g.finish()
		g.run()
		if got := c.read("key").held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
			t.Errorf("the restart changed the lease %+v to %+v", l, got)
		}
		if got := c.renew("key", owner, 3600).granted(http.StatusOK); got.Fence != l.Fence {
			t.Errorf("renewed after the restart: %+v, before it %+v", got, l)
		}
		c.release("key", owner).want(http.StatusNoContent, "")
		if got := c.acquire("key", owner, 60).granted(http.StatusCreated); got.Fence <= l.Fence {
			t.Errorf("token %d after %d", got.Fence, l.Fence)
		}
	})
}
