package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
)

// probe is one request at a moment of a lease's life, and what must be seen.
type probe struct {
	phase  string
	opens  time.Duration // the phase, as distances from E: from
	closes time.Duration // to, at which the answer must be there
	send   request
	status int
	code   string
}

// It is not parallel to others, which would make answers late.
func TestALeaseGoesThroughItsPhases(t *testing.T) {
	eachStore(t, func(t *testing.T, g *gateway) {
		c := g.client(t, uuid.New())
		const attempts = 10
		for range attempts {
			if liveThrough(t, c, uuid.NewString()) {
				return
			}
		}
		t.Fatalf("in %d attempts this machine never answered within half a second", attempts)
	})
}

// liveThrough takes one lease through its phases. It is false when an answer
// came too late to tell in which phase it was decided.
func liveThrough(t *testing.T, c *client, key string) bool {
	t.Helper()
	const ttl = 5
	owner, other := uuid.New(), uuid.New()
	l := c.acquire(key, owner, ttl).granted(http.StatusCreated)
	available := l.ExpiresAt.Add(time.Second)
	const half = time.Second / 2
	for _, p := range []probe{
		{"held", -ttl * time.Second, -time.Second, acquire(key, other, ttl), 409, "lock_held"},
		{"held", -ttl * time.Second, -time.Second, renew(key, other, ttl), 409, "lock_ownership_lost"},
		{"held", -ttl * time.Second, -time.Second, release(key, other), 409, "lock_ownership_lost"},
		{"held", -ttl * time.Second, -time.Second, read(key), 200, ""},
		{"closing", -half, 0, renew(key, owner, ttl), 409, "lock_ownership_lost"},
		{"closing", -half, 0, acquire(key, owner, ttl), 409, "lock_ownership_lost"},
		{"closing", -half, 0, acquire(key, other, ttl), 409, "lock_held"},
		{"closing", -half, 0, read(key), 200, ""},
		{"grace", half, time.Second, read(key), 200, ""},
		{"grace", half, time.Second, acquire(key, other, ttl), 409, "lock_held"},
		{"grace", half, time.Second, acquire(key, owner, ttl), 409, "lock_ownership_lost"},
		{"grace", half, time.Second, renew(key, owner, ttl), 409, "lock_ownership_lost"},
		{"grace", half, time.Second, release(key, other), 409, "lock_ownership_lost"},
	} {
		time.Sleep(time.Until(l.ExpiresAt.Add(p.opens)))
		a := c.do(p.send)
		if !a.received.Before(l.ExpiresAt.Add(p.closes)) {
			t.Logf("%v came too late for the phase %s", a, p.phase)
			return false
		}
		if a.want(p.status, p.code); p.status == http.StatusOK && a.held() != (lease{true, l.ExpiresAt, l.Fence}) {
			t.Fatalf("in the phase %s: %v, want %+v", p.phase, a, l)
		}
		if p.code == "lock_held" {
			wantAvailable(t, a, available)
		}
	}
	time.Sleep(time.Until(available.Add(time.Millisecond)))
	takeOver(t, c, key, owner, other, l)
	return true
}

// wantAvailable checks what a refused acquire says of its next chance.
func wantAvailable(t *testing.T, a answer, available time.Time) {
	t.Helper()
	if got := a.problem().AvailableAt; !got.Equal(available) {
		t.Fatalf("%v, want available_at %v", a, available)
	}
	soonest, latest := ceilSeconds(available.Sub(a.received)), ceilSeconds(available.Sub(a.sent))
	if got := a.number("Retry-After"); got < soonest || got > latest {
		t.Fatalf("%v with Retry-After %d, want %d to %d", a, got, soonest, latest)
	}
}

func ceilSeconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// takeOver takes a lock that has become free, by one single call, and shows
// that the owner before can do nothing about it.
func takeOver(t *testing.T, c *client, key string, before, after uuid.UUID, l lease) {
	t.Helper()
	a := c.acquire(key, after, 60)
	taken := a.granted(http.StatusCreated)
	if line := audited(t, c.gateway.stdout.String, a.header.Get(requestIDHeader), 1)[0]; line["taken_over"] != true {
		t.Fatalf("the audit line says nothing of a takeover: %v", line)
	}
	if taken.Fence <= l.Fence {
		t.Fatalf("the new lease has the fencing token %d, the one before had %d", taken.Fence, l.Fence)
	}
	c.release(key, before).want(409, "lock_ownership_lost")
	c.renew(key, before, 60).want(409, "lock_ownership_lost")
	c.acquire(key, before, 60).want(409, "lock_held")
	if got := c.read(key).held(); got.Fence != taken.Fence || !got.ExpiresAt.Equal(taken.ExpiresAt) {
		t.Fatalf("a late owner changed the lease %+v to %+v", taken, got)
	}
}

func TestAnOwnerCanReleaseUntilTheLockIsFree(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, g *gateway) {
		for phase, opens := range map[string]time.Duration{"closing": -time.Second / 2, "grace": time.Second / 2} {
			t.Run(phase, func(t *testing.T) {
				t.Parallel()
				c, key, owner := g.client(t, uuid.New()), "key", uuid.New()
				l := c.acquire(key, owner, 5).granted(http.StatusCreated)
				time.Sleep(time.Until(l.ExpiresAt.Add(opens)))
				a := c.release(key, owner).want(http.StatusNoContent, "")
				if late := a.sent.Sub(l.ExpiresAt) - opens; late > time.Second/4 {
					t.Skipf("this machine sent the release %v late", late)
				}
				c.acquire(key, uuid.New(), 5).granted(http.StatusCreated)
			})
		}
	})
}

func TestALockThatNobodyWantsBecomesFreeByItself(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, g *gateway) {
		c, key, owner := g.client(t, uuid.New()), "deserted", uuid.New()
		l := c.acquire(key, owner, 5).granted(http.StatusCreated)
		time.Sleep(time.Until(l.ExpiresAt.Add(time.Second + time.Millisecond)))
		c.read(key).free()
		c.renew(key, owner, 5).want(409, "lock_ownership_lost")
		c.read(key).free()
		c.release(key, owner).want(http.StatusNoContent, "")
		if again := c.acquire(key, owner, 5).granted(http.StatusCreated); again.Fence <= l.Fence {
			t.Fatalf("the new lease of the same owner has the fencing token %d, the one before had %d", again.Fence, l.Fence)
		}
	})
}
