package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
	"github.com/project-locks/gateway/lockcore/store/storetest"
	"github.com/project-locks/gateway/ratelimit"
)

const (
	short    = 500 * time.Millisecond // the operation timeout where it is waited for
	recovery = 2 * time.Second        // from the end of a fault to the next success
	slack    = 3 * time.Second        // what a busy machine may add
)

func openWith(t testing.TB, url string, mode Mode, timeout time.Duration) *Store {
	t.Helper()
	s, err := Open(url, mode, timeout)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openStill opens a store for tests about faults. Its clock stands still, so
// that no quota window ends before it is compared with what was answered.
func openStill(t testing.TB, url string, mode Mode, timeout time.Duration) *Store {
	t.Helper()
	s := openWith(t, url, mode, timeout)
	s.setNow(storetest.T)
	return s
}

// caller makes the calls of one project, holds each answer to the contract of
// store.Store, and keeps account of them.
type caller struct {
	t       testing.TB
	s       *Store
	project uuid.UUID

	decided, unknown, notApplied atomic.Int64
	streak                       atomic.Int64 // decisions since the last error
	lastErr                      atomic.Pointer[error]
}

func newCaller(t testing.TB, s *Store) *caller {
	c := &caller{t: t, s: s, project: uuid.New()}
	none := errors.New("none")
	c.lastErr.Store(&none)
	return c
}

func (c *caller) call(op lockcore.Op, key string) (store.Decision, error) {
	c.t.Helper()
	wait := 2 * c.s.timeout // so that even a busy machine hears what became of it
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	began := time.Now()
	d, err := c.s.Decide(ctx, ratelimit.Charge{Project: c.project, Limit: 1_000_000},
		lockcore.Command{Op: op, Key: key, Owner: storetest.Me, TTL: lockcore.MaxTTL})
	if took := time.Since(began); took > wait+slack {
		c.t.Errorf("%v took %v with a timeout of %v", op, took, wait)
	}
	c.account(d, err)
	return d, err
}

func (c *caller) account(d store.Decision, err error) {
	c.t.Helper()
	notApplied, unknown := errors.Is(err, store.ErrNotApplied), errors.Is(err, store.ErrUnknown)
	switch {
	case err == nil:
		c.decided.Add(1)
		c.streak.Add(1)
		return
	case notApplied == unknown:
		c.t.Errorf("error %q must say either that nothing was applied or that this is unknown", err)
	case unknown:
		c.unknown.Add(1)
	default:
		c.notApplied.Add(1)
	}
	if d != (store.Decision{}) {
		c.t.Errorf("the error %q comes with the decision %+v", err, d)
	}
	if errors.Is(err, store.ErrDamaged) {
		c.t.Errorf("a failure of the store is blamed on the records of one project: %v", err)
	}
	c.streak.Store(0)
	c.lastErr.Store(&err)
}

// mustDecide calls where nothing is in the way.
func (c *caller) mustDecide(op lockcore.Op, key string) store.Decision {
	c.t.Helper()
	d, err := c.call(op, key)
	must(c.t, err)
	return d
}

// recovers calls until it gets a decision, as it must soon after a fault.
func (c *caller) recovers() {
	c.t.Helper()
	c.soon(func() bool {
		_, err := c.call(lockcore.None, "")
		return err == nil
	})
}

func (c *caller) soon(served func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(recovery + slack); !served(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("no decision %v after the fault was over: %v", recovery+slack, *c.lastErr.Load())
		}
	}
}

// applied is how many calls were carried out without a decision being seen.
// It can only be those whose outcome is unknown, each at most once.
func (c *caller) applied(client redis.UniversalClient) int64 {
	c.t.Helper()
	quota := keys(&store.Call{Charge: ratelimit.Charge{Project: c.project}})[0]
	record, err := client.Get(context.Background(), quota).Result()
	if errors.Is(err, redis.Nil) {
		record, err = ":0", nil
	}
	must(c.t, err)
	_, digits, _ := strings.Cut(record, ":")
	count, err := strconv.ParseInt(digits, 10, 64)
	must(c.t, err)
	applied := count - c.decided.Load()
	if applied < 0 || applied > c.unknown.Load() {
		c.t.Errorf("counted %d requests, answered %d with a decision, %d unknown, %d not applied: %v",
			count, c.decided.Load(), c.unknown.Load(), c.notApplied.Load(), *c.lastErr.Load())
	}
	return applied
}

// load is a steady load of calls, each project acquiring and releasing a lock
// of its own.
type load struct {
	callers []*caller
	stop    context.CancelFunc
	all     sync.WaitGroup
}

func startLoad(t testing.TB, callers ...*caller) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{callers: callers, stop: stop}
	t.Cleanup(l.end)
	for _, c := range callers {
		l.all.Go(func() { c.work(ctx) })
	}
	return l
}

func (c *caller) work(ctx context.Context) {
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for last := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if d, err := c.call(lockcore.Acquire, "key"); err == nil {
			// The same token again is a lease whose release did not get through.
			if !storetest.Gives(d.Outcome.Verdict) || d.Outcome.Fence < last {
				c.t.Errorf("%+v after token %d", d.Outcome, last)
			}
			last = d.Outcome.Fence
		}
		_, _ = c.call(lockcore.Release, "key") // accounted for
	}
}

// settle waits until every caller is served steadily from now on.
func (l *load) settle(t testing.TB) {
	t.Helper()
	for _, c := range l.callers {
		c.streak.Store(0)
	}
	redistest.Until(t, "every project is served", func(context.Context) error {
		for _, c := range l.callers {
			if c.streak.Load() < 50 {
				return fmt.Errorf("the last error was %w", *c.lastErr.Load())
			}
		}
		return nil
	})
}

// isServedAgain is caller.recovers for everybody under load.
func (l *load) isServedAgain() {
	for _, c := range l.callers {
		before := c.decided.Load()
		c.soon(func() bool { return c.decided.Load() > before })
	}
}

func (l *load) end() {
	l.stop()
	l.all.Wait()
}

// hasFailed fits redistest.Until.
func (l *load) hasFailed(context.Context) error {
	for _, c := range l.callers {
		if c.unknown.Load()+c.notApplied.Load() > 0 {
			return nil
		}
	}
	return errors.New("no call has failed yet")
}

func callers(t testing.TB, s *Store, n int) []*caller {
	all := make([]*caller, n)
	for i := range all {
		all[i] = newCaller(t, s)
	}
	return all
}
