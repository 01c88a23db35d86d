package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// scene is a server with a store that is used to it.
type scene struct {
	*testing.T
	server *redistest.Server
	proxy  *redistest.Proxy // between them, in some tests
	client *redis.Client    // for meddling
}

func (s *scene) config(name, value string) {
	s.Helper()
	must(s, s.client.ConfigSet(s.Context(), name, value).Err())
}

// dropClients cuts the store off; it may come back.
func (s *scene) dropClients() {
	s.Helper()
	must(s, s.client.Do(s.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
}

// ping fits redistest.Until.
func (s *scene) ping(ctx context.Context) error { return s.client.Ping(ctx).Err() }

func (s *scene) kill()     { s.server.Kill() }
func (s *scene) restart()  { s.server.Restart(s.T) }
func (s *scene) freeze()   { s.server.Signal(s.T, syscall.SIGSTOP) }
func (s *scene) unfreeze() { s.server.Signal(s.T, syscall.SIGCONT) }

var faults = []struct {
	name       string
	password   string // in the store's URL
	proxied    bool
	cold       bool         // the store has no connection yet
	slow       bool         // the call waits for its timeout
	begin, end func(*scene) // nil: it ends with the first call
	want       error        // nil: one or the other
	says       string       // in the error: the fault was this one
	applied    [2]int64
}{
	{
		name:  "the server is killed",
		begin: (*scene).kill, end: (*scene).restart,
		want: store.ErrNotApplied, says: "connection refused",
	},
	{
		name: "the server has not started yet", cold: true,
		begin: (*scene).kill, end: (*scene).restart,
		want: store.ErrNotApplied, says: "connection refused",
	},
	{
		name: "the server is frozen", slow: true,
		begin: (*scene).freeze, end: (*scene).unfreeze,
		want: store.ErrUnknown, applied: [2]int64{0, 1}, // it may find the request when it wakes
	},
	{
		name: "the server is frozen before the first connection", cold: true, slow: true,
		begin: (*scene).freeze, end: (*scene).unfreeze,
		want: store.ErrNotApplied,
	},
	{
		name: "clients are paused", slow: true,
		begin: func(s *scene) { must(s, s.client.Do(s.Context(), "client", "pause", "3000", "all").Err()) },
		end: func(s *scene) {
			for deadline := time.Now().Add(3*time.Second + slack); s.client.Ping(s.Context()).Err() != nil; {
				if time.Now().After(deadline) {
					s.Fatal("the pause does not end")
				}
			}
		},
		want: store.ErrUnknown, applied: [2]int64{0, 1},
	},
	{
		// The news of the cut may meet the request on the way.
		name: "the connection is cut, and no other is to be had", proxied: true,
		begin: func(s *scene) { s.proxy.Stop() },
		end:   func(s *scene) { s.proxy.Resume(s.T) },
	},
	{
		name: "the connection is cut under the request", proxied: true,
		begin: func(s *scene) { s.proxy.CutRequest(s.T, "acquire") },
		want:  store.ErrUnknown,
	},
	{
		name: "the connection is cut under the reply", proxied: true,
		begin: func(s *scene) { s.proxy.CutReply(s.T, "granted") },
		want:  store.ErrUnknown, applied: [2]int64{1, 1},
	},
	{
		name: "the connection is cut under the first greeting", proxied: true, cold: true,
		begin: func(s *scene) { s.proxy.CutReply(s.T, "") },
		want:  store.ErrNotApplied,
	},
	{
		name:  "the server has become a read-only replica",
		begin: func(s *scene) { must(s, s.client.Do(s.Context(), "replicaof", "127.0.0.1", "1").Err()) },
		end:   func(s *scene) { must(s, s.client.Do(s.Context(), "replicaof", "no", "one").Err()) },
		want:  store.ErrNotApplied, says: "READONLY",
	},
	{
		name:  "the memory is full",
		begin: func(s *scene) { s.config("maxmemory", "1") },
		end:   func(s *scene) { s.config("maxmemory", "0") },
		want:  store.ErrNotApplied, says: "OOM",
	},
	{
		name:  "too few replicas are in step",
		begin: func(s *scene) { s.config("min-replicas-to-write", "1") },
		end:   func(s *scene) { s.config("min-replicas-to-write", "0") },
		want:  store.ErrNotApplied, says: "NOREPLICAS",
	},
	{
		name: "the server is loading its data",
		begin: func(s *scene) {
			must(s, s.client.Do(s.Context(), "debug", "populate", "20000").Err())
			must(s, s.client.Save(s.Context()).Err())
			s.server.Launch(s.T, "--appendonly", "no", "--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024")
		},
		end: func(s *scene) {
			s.config("key-load-delay", "0")
			redistest.Until(s, "the data is loaded", s.ping)
		},
		want: store.ErrNotApplied, says: "LOADING",
	},
	{
		name: "the password is wrong", password: "ours",
		begin: func(s *scene) { s.config("requirepass", "theirs"); s.dropClients() },
		end:   func(s *scene) { s.config("requirepass", "ours") },
		want:  store.ErrNotApplied, says: "WRONGPASS",
	},
	{
		name:  "the password is missing",
		begin: func(s *scene) { s.config("requirepass", "theirs"); s.dropClients() },
		end:   func(s *scene) { s.config("requirepass", "") },
		want:  store.ErrNotApplied, says: "NOAUTH",
	},
	{
		name:  "the user may not run scripts",
		begin: func(s *scene) { must(s, s.client.Do(s.Context(), "acl", "setuser", "default", "-@scripting").Err()) },
		end:   func(s *scene) { must(s, s.client.Do(s.Context(), "acl", "setuser", "default", "+@scripting").Err()) },
		want:  store.ErrNotApplied, says: "NOPERM",
	},
	{
		name:  "the server takes no more connections",
		begin: func(s *scene) { s.config("maxclients", "1"); s.dropClients() },
		end:   func(s *scene) { s.config("maxclients", "100") },
	},
}

func TestEveryFaultIsAnErrorInTimeAndEndsByItself(t *testing.T) {
	t.Parallel()
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--enable-debug-command", "yes")
			s := &scene{T: t, server: server, client: server.Client(t)}
			addr := server.Addr
			if fault.proxied {
				s.proxy = redistest.StartProxy(t, server.Addr)
				addr = s.proxy.Addr
			}
			must(t, s.ping(t.Context())) // connected before passwords change
			wait := map[bool]time.Duration{true: short, false: timeout}[fault.slow]
			c := newCaller(t, openStill(t, "redis://:"+fault.password+"@"+addr, Single, wait))
			if !fault.cold {
				c.mustDecide(lockcore.Acquire, "another")
			}

			fault.begin(s)
			d, err := c.call(lockcore.Acquire, "key")
			if err == nil || fault.want != nil && !errors.Is(err, fault.want) || !strings.Contains(fmt.Sprint(err), fault.says) {
				t.Errorf("decision %+v, error %q; want %q with %q", d, err, fault.want, fault.says)
			}
			if fault.end != nil {
				if ping(c.s) == nil {
					t.Error("the store is well, says Ping")
				}
				fault.end(s)
			}

			c.recovers()
			held := c.mustDecide(lockcore.Read, "key").Outcome.Held()
			applied := c.applied(s.client)
			if applied < fault.applied[0] || applied > fault.applied[1] {
				t.Errorf("it was carried out %d times, want %v", applied, fault.applied)
			}
			if held != (applied > 0) {
				t.Errorf("it was counted %d times, and the lock is held: %v", applied, held)
			}
			must(t, ping(c.s))
		})
	}
}

func ping(s *Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.timeout)
	defer cancel()
	return s.Ping(ctx)
}

func TestLostConnectionsAndScriptsAreNotNoticed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := &scene{T: t, server: server, client: server.Client(t)}
	c := newCaller(t, openStill(t, server.URL(), Single, timeout))
	for name, lose := range map[string]func(){
		"connections": s.dropClients,
		"scripts":     func() { must(t, s.client.ScriptFlush(t.Context()).Err()) },
		"both":        func() { s.kill(); s.restart() },
	} {
		c.mustDecide(lockcore.Acquire, name)
		lose()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := c.call(lockcore.Renew, name); err != nil {
					t.Errorf("after the server lost its %s: %v", name, err)
				}
			})
		}
		all.Wait()
	}
	if applied := c.applied(s.client); applied != 0 {
		t.Errorf("%d requests were counted twice", applied)
	}
}

func TestTokensRiseThoughTheDataIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, client := newCaller(t, openWith(t, server.URL(), Single, timeout)), server.Client(t)
	last := int64(0)
	for name, lose := range map[string]func() error{
		"nothing yet":       func() error { return nil },
		"FLUSHALL":          func() error { return client.FlushAll(t.Context()).Err() },
		"an empty new disk": func() error { server.RestartEmpty(t); return nil },
	} {
		must(t, lose())
		got := c.mustDecide(lockcore.Acquire, "key").Outcome
		if got.Verdict != lockcore.Granted || got.Fence <= last {
			t.Fatalf("after %s: %+v, want a lease with a token above %d", name, got, last)
		}
		last = got.Fence
		c.mustDecide(lockcore.Release, "key")
	}
}

func TestAServerThatMayEvictIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := &scene{T: t, server: server, client: server.Client(t)}
	store := openWith(t, server.URL(), Single, timeout)
	for _, policy := range []string{"allkeys-lru", "volatile-ttl", "allkeys-random"} {
		s.config("maxmemory-policy", policy)
		if err := store.Ping(t.Context()); !errors.Is(err, ErrMayEvict) || !strings.Contains(err.Error(), policy) {
			t.Errorf("with %s: %v", policy, err)
		}
	}
	s.config("maxmemory-policy", "noeviction")
	must(t, store.Ping(t.Context()))
}

func TestCloseDoesNotWaitForAFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := newCaller(t, openWith(t, server.URL(), Single, time.Minute))
	c.mustDecide(lockcore.None, "")
	server.Signal(t, syscall.SIGSTOP)
	var calls sync.WaitGroup
	calls.Go(func() {
		if d, err := c.call(lockcore.None, ""); err == nil {
			t.Errorf("a frozen server decided %+v", d)
		}
	})
	redistest.Until(t, "the call is under way", func(context.Context) error {
		if c.s.client.PoolStats().IdleConns > 0 {
			return errors.New("its connection is idle")
		}
		return nil
	})
	began := time.Now()
	must(t, c.s.Close())
	calls.Wait()
	if took := time.Since(began); took > slack {
		t.Errorf("closing took %v", took)
	}
}
