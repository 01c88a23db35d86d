package e2e

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

func TestRedisIsKilledAndComesBackWithItsData(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	owner := uuid.New()
	l := o.acquire("key", owner, 300).granted(http.StatusCreated)
	o.recovers() // it is ready now
	o.redis.Kill()
	for _, r := range []request{
		acquire("other", owner, 60), renew("key", owner, 60), read("key"), release("key", owner), forceRelease("key"),
	} {
		o.unavailable(r, "not_applied")
	}
	o.notReady("")
	o.redis.Restart(t)
	o.recovers()
	if got := o.read("key").held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
		t.Errorf("the outage changed the lease %+v to %+v", l, got)
	}
	o.read("other").free()
	o.renew("key", owner, 60).granted(http.StatusOK)
}

func TestRedisComesBackWithoutItsData(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	last := o.acquire("key", uuid.New(), 300).granted(http.StatusCreated)
	o.redis.RestartEmpty(t)
	o.recovers()
	o.read("key").free()
	if l := o.acquire("key", uuid.New(), 60).granted(http.StatusCreated); l.Fence <= last.Fence {
		t.Errorf("token %d after the loss of all data, %d before", l.Fence, last.Fence)
	}
}

func TestRedisFreezes(t *testing.T) {
	t.Parallel()
	o := newOutage(t, inMemory...)
	owner := uuid.New()
	l := o.acquire("key", owner, 300).granted(http.StatusCreated)
	for name, refused := range map[string]func(){
		"one request":   func() { o.unavailable(acquire("new", owner, 60), "unknown") },
		"many requests": o.refusesMany,
	} {
		o.recovers() // it is ready now
		o.redis.Signal(t, syscall.SIGSTOP)
		refused()
		o.notReady("")
		o.redis.Signal(t, syscall.SIGCONT)
		o.recovers()
		o.acquire("new", owner, 60).granted(http.StatusCreated) // the same lock token: whatever became of the first try
		if got := o.read("key").held(); got.Fence != l.Fence {
			t.Fatalf("%s while it was frozen: the lease %+v became %+v", name, l, got)
		}
	}
}

func TestAGatewayStartsBeforeItsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	g := start(t, settings{"GATEWAY_STORE": server.URL(), "GATEWAY_STORE_TIMEOUT": storeTimeout.String()})
	o := &outage{t, server, g, g.client(t, uuid.New())}
	watchHealth(t, g)
	o.unavailable(acquire("key", uuid.New(), 60), "not_applied")
	o.notReady("")
	server.Restart(t)
	o.recovers()
	o.acquire("key", uuid.New(), 60).granted(http.StatusCreated)
}

func TestRedisCannotDecide(t *testing.T) {
	t.Parallel()
	o := newOutage(t, inMemory...)
	meddle := o.redis.Client(t)
	set := func(name, value string) func(context.Context) error {
		return func(ctx context.Context) error { return meddle.ConfigSet(ctx, name, value).Err() }
	}
	replicaOf := func(host, port string) func(context.Context) error {
		return func(ctx context.Context) error { return meddle.ReplicaOf(ctx, host, port).Err() }
	}
	for _, trouble := range []struct {
		name       string
		make, mend func(context.Context) error
	}{
		{"too few replicas", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")},
		{"it became a replica", replicaOf("127.0.0.1", "1"), replicaOf("no", "one")},
		{"it is out of memory", set("maxmemory", "1"), set("maxmemory", "0")},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			o := &outage{t, o.redis, o.gateway, o.gateway.client(t, uuid.New())}
			owner := uuid.New()
			l := o.acquire("key", owner, 60).granted(http.StatusCreated)
			if err := trouble.make(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.unavailable(acquire("new", owner, 60), "not_applied")
			o.unavailable(renew("key", owner, 60), "not_applied")
			o.notReady("")
			if err := trouble.mend(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.recovers()
			o.read("new").free()
			if got := o.read("key").held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
				t.Errorf("refused requests changed the lease %+v to %+v", l, got)
			}
		})
	}
}

func TestAForgottenScriptIsNoTrouble(t *testing.T) {
	t.Parallel()
	o := newOutage(t, inMemory...)
	freshMinute()
	before := o.read("key").quota()
	if err := o.redis.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	a := o.acquire("key", uuid.New(), 60)
	a.granted(http.StatusCreated)
	if after := a.quota(); after.remaining != before.remaining-1 {
		t.Errorf("one request moved the quota from %+v to %+v", before, after)
	}
}

func TestARedisThatMayDropLocksIsRefused(t *testing.T) {
	t.Parallel()
	o := newOutage(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	o.notReady("allkeys-lru")
	// The gateway notices a moment after its start.
	eventually(t, "a refusal", func() bool { return o.read("key").status == http.StatusServiceUnavailable })
	o.unavailable(acquire("key", uuid.New(), 60), "not_applied")
	r := call(t, o.settings, "", "check")
	for _, word := range []string{"GATEWAY_STORE", "allkeys-lru", "maxmemory-policy", "noeviction"} {
		if r.code == 0 || !strings.Contains(r.all(), word) {
			t.Errorf("check: exit code %d, %s; want a complaint with %q", r.code, r.all(), word)
		}
	}
	if err := o.redis.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	o.recovers()
	if r := call(t, o.settings, "", "check"); r.code != 0 {
		t.Errorf("check of a usable store: exit code %d, %s", r.code, r.all())
	}
}
