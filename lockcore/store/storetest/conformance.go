package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// Harness is a fresh, empty store under test and the hook that moves its time.
type Harness struct {
	Store  store.Store
	SetNow func(time.Time)
}

// Run holds a store to its contract.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *driver)
	}{
		{"a lease goes through its phases", testPhases},
		{"renewals stop at the deadline", testDeadline},
		{"a takeover is told for five minutes", testTakeover},
		{"fencing tokens rise across every way a lease can end", testFencing},
		{"fencing tokens are exact digits", testFencingDigits},
		{"projects and keys are apart, however their names join", testNamesApart},
		{"every admitted request counts, whatever it does", testCounting},
		{"lock requests and forwarded requests are counted apart", testCountersApart},
		{"past the limit nothing is performed until the minute ends", testLimit},
		{"parallel requests are admitted exactly up to the limit", testParallelLimit},
		{"of parallel acquires one wins", testParallelAcquire},
		{"the store agrees with the rules on random histories", testRandomHistories},
		{"a caller whose time is up gets an error at once", testEndedContext},
		{"a closed store refuses", testClosed},
		{"a healthy store answers ping", testPing},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := open(t)
			d := &driver{Harness: h, t: t, project: uuid.New(), limit: 1_000_000}
			d.at(0)
			test.run(t, d)
		})
	}
}

// driver speaks to the store for one test.
type driver struct {
	Harness
	t       *testing.T
	project uuid.UUID
	limit   int64
	now     time.Time
}

// at moves the store's clock to a distance from T.
func (d *driver) at(distance time.Duration) {
	d.now = T.Add(distance)
	d.SetNow(d.now)
}

func (d *driver) decide(op lockcore.Op, owner uuid.UUID, ttl time.Duration) store.Decision {
	return d.decideKey(d.project, "key", op, owner, ttl)
}

func (d *driver) decideKey(project uuid.UUID, key string, op lockcore.Op, owner uuid.UUID, ttl time.Duration) store.Decision {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	got, err := d.Store.Decide(ctx, ratelimit.Charge{Project: project, Limit: d.limit},
		lockcore.Command{Op: op, Key: key, Owner: owner, TTL: ttl})
	if err != nil {
		d.t.Fatalf("%v: %v", op, err)
	}
	return got
}

// expect decides and compares the verdict.
func (d *driver) expect(want lockcore.Verdict, op lockcore.Op, owner uuid.UUID, ttl time.Duration) lockcore.Outcome {
	d.t.Helper()
	got := d.decide(op, owner, ttl)
	if got.Outcome.Verdict != want {
		d.t.Fatalf("%v at T%+v: %v, want %v", op, d.now.Sub(T), got.Outcome.Verdict, want)
	}
	if !got.At.Equal(d.now) {
		d.t.Fatalf("decided at T%+v, want T%+v", got.At.Sub(T), d.now.Sub(T))
	}
	return got.Outcome
}

func (d *driver) expectHeld(want bool) {
	d.t.Helper()
	if got := d.expect(lockcore.Observed, lockcore.Read, uuid.Nil, 0); got.Held() != want {
		d.t.Fatalf("at T%+v held is %v, want %v", d.now.Sub(T), got.Held(), want)
	}
}

const ttl = 5 * time.Second

func testPhases(t *testing.T, d *driver) {
	first := d.expect(lockcore.Granted, lockcore.Acquire, Me, ttl)
	if want := d.now.Add(ttl); !first.ExpiresAt.Equal(want) {
		t.Fatalf("E is %v, want %v", first.ExpiresAt, want)
	}
	d.at(ttl - lockcore.Margin - time.Microsecond) // held
	again := d.expect(lockcore.Extended, lockcore.Acquire, Me, 2*ttl)
	renewed := d.expect(lockcore.Extended, lockcore.Renew, Me, ttl)
	if again.Fence != first.Fence || renewed.Fence != first.Fence {
		t.Fatalf("tokens %d, %d, %d of one lease differ", first.Fence, again.Fence, renewed.Fence)
	}
	e := renewed.ExpiresAt.Sub(T)
	for _, at := range []time.Duration{e - lockcore.Margin, e - time.Microsecond, e, e + lockcore.Grace - time.Microsecond} { // closing, grace
		d.at(at)
		d.expect(lockcore.OwnershipLost, lockcore.Acquire, Me, ttl)
		d.expect(lockcore.OwnershipLost, lockcore.Renew, Me, ttl)
		d.expect(lockcore.OwnershipLost, lockcore.Renew, Other, ttl)
		d.expect(lockcore.OwnershipLost, lockcore.Release, Other, 0)
		refused := d.expect(lockcore.LockHeld, lockcore.Acquire, Other, ttl)
		if want := T.Add(e + lockcore.Grace); !refused.AvailableAt().Equal(want) {
			t.Fatalf("available at %v, want %v", refused.AvailableAt(), want)
		}
		d.expectHeld(true)
	}
	d.at(e + lockcore.Grace) // free
	d.expectHeld(false)
	d.expect(lockcore.OwnershipLost, lockcore.Renew, Me, ttl)
	d.expectHeld(false)
	taken := d.expect(lockcore.TakenOver, lockcore.Acquire, Other, ttl)
	if taken.Fence <= first.Fence {
		t.Fatalf("the new lease's token %d is not above %d", taken.Fence, first.Fence)
	}
	d.expect(lockcore.OwnershipLost, lockcore.Release, Me, 0) // a late release
	d.expectHeld(true)
	d.expect(lockcore.Released, lockcore.Release, Other, 0)
	d.expectHeld(false)
	d.expect(lockcore.Released, lockcore.Release, Other, 0)
}

func testDeadline(t *testing.T, d *driver) {
	d.expect(lockcore.Granted, lockcore.Acquire, Me, lockcore.MaxTTL)
	deadline := T.Add(lockcore.MaxLifetime)
	d.at(time.Hour)
	for _, op := range []lockcore.Op{lockcore.Renew, lockcore.Acquire} {
		if got := d.expect(lockcore.Extended, op, Me, lockcore.MaxTTL); !got.ExpiresAt.Equal(deadline) {
			t.Fatalf("%v moved E to %v, past the deadline %v", op, got.ExpiresAt, deadline)
		}
	}
	if got := d.expect(lockcore.Extended, lockcore.Renew, Me, ttl); !got.ExpiresAt.Equal(d.now.Add(ttl)) {
		t.Fatalf("a shorter TTL left E at %v", got.ExpiresAt)
	}
}

func testTakeover(_ *testing.T, d *driver) {
	forgotten := ttl + lockcore.Grace + lockcore.Memory
	for round, c := range []struct {
		after time.Duration
		by    uuid.UUID
		want  lockcore.Verdict
	}{
		{ttl + lockcore.Grace, Other, lockcore.TakenOver},
		{forgotten - time.Microsecond, Other, lockcore.TakenOver},
		{forgotten, Other, lockcore.Granted},
		{ttl + lockcore.Grace, Me, lockcore.Granted}, // its own, which had expired
	} {
		start := time.Duration(round) * time.Hour
		d.at(start)
		d.expect(lockcore.Granted, lockcore.Acquire, Me, ttl)
		d.at(start + c.after)
		d.expectHeld(false) // whatever is remembered of it
		d.expect(c.want, lockcore.Acquire, c.by, ttl)
	}
	d.expect(lockcore.Released, lockcore.Release, Me, 0)
	d.expect(lockcore.Granted, lockcore.Acquire, Other, ttl) // nothing expired
}

func testFencing(t *testing.T, d *driver) {
	var last int64
	for round, end := range []func(){
		func() { d.expect(lockcore.Released, lockcore.Release, Me, 0) },
		func() { d.expect(lockcore.Released, lockcore.ForceRelease, uuid.Nil, 0) },
		func() { d.at(time.Minute) },
		func() {},
	} {
		got := d.expect(lockcore.Granted, lockcore.Acquire, Me, ttl)
		if got.Fence <= last {
			t.Fatalf("round %d: token %d is not above %d", round, got.Fence, last)
		}
		last = got.Fence
		end()
	}
}

func testFencingDigits(t *testing.T, d *driver) {
	for _, micro := range []time.Duration{1, 499, 500, 999} {
		d.at(micro * time.Microsecond)
		if got, want := d.expect(lockcore.Granted, lockcore.Acquire, Me, ttl).Fence, d.now.UnixMicro(); got != want {
			t.Fatalf("token %d, want %d", got, want)
		}
		d.expect(lockcore.Released, lockcore.ForceRelease, uuid.Nil, 0)
	}
}

func testNamesApart(t *testing.T, d *driver) {
	d.limit = 100
	projects := []uuid.UUID{uuid.New(), uuid.New()}
	names := []string{"a", "A", "a:b", "a:", ":b", "quota", "fence", "lease", "lease:a", "a.b", "a_b", "a-b"}
	for _, project := range projects {
		for i, name := range names {
			got := d.decideKey(project, name, lockcore.Acquire, Me, ttl)
			if got.Outcome.Verdict != lockcore.Granted {
				t.Fatalf("acquire of %q: %v", name, got.Outcome.Verdict)
			}
			if got.Quota.Used != int64(i+1) {
				t.Fatalf("%q is request %d of its project, counted as %d", name, i+1, got.Quota.Used)
			}
		}
	}
	for _, name := range names {
		d.decideKey(projects[0], name, lockcore.Release, Me, 0)
		if !d.decideKey(projects[1], name, lockcore.Read, uuid.Nil, 0).Outcome.Held() {
			t.Fatalf("a release of %q in another project freed it", name)
		}
	}
}

func testCounting(t *testing.T, d *driver) {
	d.limit = 20
	for i, op := range []lockcore.Op{
		lockcore.None, lockcore.Read, lockcore.Acquire, lockcore.Acquire, lockcore.Renew,
		lockcore.Release, lockcore.Release, lockcore.Renew, lockcore.ForceRelease, lockcore.None,
	} {
		got := d.decide(op, Me, ttl).Quota
		want := ratelimit.NewResult(true, 20, int64(i+1), d.now)
		if got != want {
			t.Fatalf("request %d (%v): quota %+v, want %+v", i+1, op, got, want)
		}
	}
}

func testCountersApart(t *testing.T, d *driver) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := range int64(2) {
		for _, counter := range []ratelimit.Counter{ratelimit.Locks, ratelimit.Requests} {
			got, err := d.Store.Decide(ctx, ratelimit.Charge{Project: d.project, Counter: counter, Limit: 2}, lockcore.Command{})
			if err != nil || got.Quota != ratelimit.NewResult(true, 2, i+1, d.now) {
				t.Fatalf("request %d of counter %v: %+v, %v", i+1, counter, got.Quota, err)
			}
		}
	}
}

func testLimit(t *testing.T, d *driver) {
	d.limit = 3
	d.at(10 * time.Second)
	d.decide(lockcore.Acquire, Me, lockcore.MaxTTL)
	d.decide(lockcore.Read, uuid.Nil, 0)
	d.decide(lockcore.None, uuid.Nil, 0)
	for range 3 {
		got := d.decide(lockcore.ForceRelease, uuid.Nil, 0)
		if got.Quota != ratelimit.NewResult(false, 3, 3, d.now) || got.Outcome != (lockcore.Outcome{}) {
			t.Fatalf("past the limit: %+v", got)
		}
	}
	d.at(time.Minute - time.Microsecond)
	if d.decide(lockcore.ForceRelease, uuid.Nil, 0).Quota.Admitted {
		t.Fatal("admitted before the window ended")
	}
	d.at(time.Minute)
	d.expectHeld(true) // the refused force releases did nothing
	if got := d.decide(lockcore.None, uuid.Nil, 0).Quota; got.Used != 2 {
		t.Fatalf("the new window has counted %d, want 2", got.Used)
	}
	d.limit = 2
	if d.decide(lockcore.None, uuid.Nil, 0).Quota.Admitted {
		t.Fatal("a lowered limit was not applied")
	}
	d.limit = 3
	if !d.decide(lockcore.None, uuid.Nil, 0).Quota.Admitted {
		t.Fatal("a raised limit was not applied")
	}
}

func testParallelLimit(t *testing.T, d *driver) {
	d.limit = 20
	var admitted atomic.Int64
	parallel(100, func(int) {
		if d.decide(lockcore.Read, uuid.Nil, 0).Quota.Admitted {
			admitted.Add(1)
		}
	})
	if got := admitted.Load(); got != 20 {
		t.Fatalf("%d of 100 parallel requests were admitted, want 20", got)
	}
}

func testParallelAcquire(t *testing.T, d *driver) {
	var granted atomic.Int64
	parallel(100, func(int) {
		if d.decide(lockcore.Acquire, uuid.New(), ttl).Outcome.Verdict == lockcore.Granted {
			granted.Add(1)
		}
	})
	if got := granted.Load(); got != 1 {
		t.Fatalf("%d of 100 parallel acquires were granted", got)
	}
}

func parallel(n int, do func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func testEndedContext(t *testing.T, d *driver) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 { // a worker may be first, and then the answer may be a decision
		_, err := d.Store.Decide(ctx, ratelimit.Charge{Project: d.project, Limit: 1000}, lockcore.Command{Op: lockcore.None})
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotApplied) && !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("error %v says neither whether it was applied nor that this is unknown", err)
		}
		return
	}
	t.Fatal("50 calls with an ended context all went through")
}

func testClosed(t *testing.T, d *driver) {
	if err := d.Store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := d.Store.Decide(context.Background(), ratelimit.Charge{Project: d.project, Limit: 1}, lockcore.Command{Op: lockcore.None})
	if !errors.Is(err, store.ErrNotApplied) {
		t.Fatalf("error %v, want %v", err, store.ErrNotApplied)
	}
}

func testPing(t *testing.T, d *driver) {
	for range 2 {
		if err := d.Store.Ping(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
