package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

func TestFailuresOfTheStoreAreCountedByWhatIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		outcome string
		up      float64
	}{
		"not applied":              {fmt.Errorf("%w: busy", store.ErrNotApplied), "not_applied", 0},
		"unknown":                  {fmt.Errorf("%w: read", store.ErrUnknown), "unknown", 0},
		"an error of another kind": {errors.New("surprise"), "unknown", 0},
		"a damaged record":         {fmt.Errorf("%w: fence", store.ErrDamaged), "damaged", 1},
	} {
		t.Run(name, func(t *testing.T) {
			healthy := make(chan struct{})
			s := newStore(t, &slowPing{stub: stub{func(lockcore.Command) (store.Decision, error) { return store.Decision{}, c.err }}, healthy: healthy})
			t.Cleanup(func() { close(healthy) }) // until then the store is not found to be up again
			if _, err := decide(s, lockcore.Read); !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if got := testutil.ToFloat64(s.failures[c.outcome]); got != 1 {
				t.Errorf("%s is counted %v times", c.outcome, got)
			}
			if got := testutil.ToFloat64(s.up); got != c.up {
				t.Errorf("gateway_store_up is %v, want %v", got, c.up)
			}
			if got := observations(t, s.duration); got != 1 {
				t.Errorf("%d times were measured, want 1", got)
			}
		})
	}
}

// slowPing is a store that is healthy at the first look, and again only when
// the test ends.
type slowPing struct {
	stub
	healthy chan struct{}
	looked  atomic.Bool
}

func (s *slowPing) Ping(ctx context.Context) error {
	if !s.looked.Swap(true) {
		return nil
	}
	select {
	case <-s.healthy:
	case <-ctx.Done():
	}
	return nil
}

func TestWhatIsRefusedWithoutAskingTakesNoTime(t *testing.T) {
	healthy := make(chan struct{})
	s := newStore(t, &slowPing{stub: stub{func(lockcore.Command) (store.Decision, error) { return store.Decision{}, store.ErrUnknown }}, healthy: healthy})
	t.Cleanup(func() { close(healthy) })
	for range 3 {
		_, _ = decide(s, lockcore.Read)
	}
	if down := testutil.ToFloat64(s.failures["down"]); down != 2 {
		t.Errorf("%v refusals while it is known to be down, want 2", down)
	}
	if got := observations(t, s.duration); got != 1 {
		t.Errorf("%d times were measured, want 1", got)
	}
}

func TestDecisionsAreCountedByVerdict(t *testing.T) {
	var next store.Decision
	s := newStore(t, &stub{func(lockcore.Command) (store.Decision, error) { return next, nil }})
	for _, c := range []struct {
		op       lockcore.Op
		verdict  lockcore.Verdict
		admitted bool
	}{
		{lockcore.Acquire, lockcore.Granted, true},
		{lockcore.Acquire, lockcore.TakenOver, true},
		{lockcore.Acquire, lockcore.LockHeld, true},
		{lockcore.Acquire, lockcore.Nothing, false}, // past its quota: the rule was not asked
		{lockcore.Renew, lockcore.Extended, true},
		{lockcore.Renew, lockcore.OwnershipLost, true},
		{lockcore.Release, lockcore.Released, true},
		{lockcore.ForceRelease, lockcore.Released, true},
		{lockcore.Read, lockcore.Observed, true},
		{lockcore.None, lockcore.Nothing, true},
		{lockcore.Read, lockcore.Granted, true}, // no rule says this
	} {
		next = store.Decision{At: time.Now(), Quota: ratelimit.Result{Admitted: c.admitted}, Outcome: lockcore.Outcome{Verdict: c.verdict}}
		if _, err := decide(s, c.op); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, `
		# HELP gateway_lease_decisions_total Requests that the quota admitted, by what the lease rule made of them.
		# TYPE gateway_lease_decisions_total counter
		gateway_lease_decisions_total{operation="acquire",verdict="extended"} 0
		gateway_lease_decisions_total{operation="acquire",verdict="granted"} 1
		gateway_lease_decisions_total{operation="acquire",verdict="lock_held"} 1
		gateway_lease_decisions_total{operation="acquire",verdict="lock_ownership_lost"} 0
		gateway_lease_decisions_total{operation="acquire",verdict="taken_over"} 1
		gateway_lease_decisions_total{operation="force_release",verdict="released"} 1
		gateway_lease_decisions_total{operation="none",verdict="nothing"} 1
		gateway_lease_decisions_total{operation="read",verdict="observed"} 1
		gateway_lease_decisions_total{operation="release",verdict="lock_ownership_lost"} 0
		gateway_lease_decisions_total{operation="release",verdict="released"} 1
		gateway_lease_decisions_total{operation="renew",verdict="extended"} 1
		gateway_lease_decisions_total{operation="renew",verdict="lock_ownership_lost"} 1
	`, "gateway_lease_decisions_total")
}

func TestTheQuickestAnswerTellsTheDifferenceOfTheClocks(t *testing.T) {
	c := newClock()
	difference := func() float64 { return testutil.ToFloat64(c.difference) }
	if got := difference(); !math.IsNaN(got) {
		t.Fatalf("before any answer the difference is %v", got)
	}
	start := time.Now()
	ahead := func(after, took, by time.Duration) { // the store decides in the middle, its clock is ahead
		sent := start.Add(after)
		c.compare(sent, took, sent.Add(took/2).Add(by))
	}
	for _, step := range []struct {
		after, took, by time.Duration
		want            float64
	}{
		{0, time.Second, 2 * time.Second, 2},                              // the first
		{time.Second, 10 * time.Millisecond, time.Second, 1},              // quicker
		{2 * time.Second, 20 * time.Millisecond, 5 * time.Second, 1},      // slower
		{3 * time.Second, 10 * time.Millisecond, -3 * time.Second, -3},    // as quick, and later
		{13 * time.Second, 30 * time.Millisecond, 4 * time.Second, 4},     // slower, but it is time for another
		{14 * time.Second, 2 * time.Second, 9 * time.Second, 4},           // slower
		{24 * time.Second, 2 * time.Second, -9 * time.Second, -9},         // time for another
		{25 * time.Second, time.Millisecond, 250 * time.Millisecond, .25}, // quicker
	} {
		if ahead(step.after, step.took, step.by); math.Abs(difference()-step.want) > 1e-6 {
			t.Errorf("after %+v the difference is %v, want %v", step, difference(), step.want)
		}
	}
}

func TestMeasuringADecisionAllocatesNothing(t *testing.T) {
	at := time.Now()
	s := newStore(t, &stub{func(lockcore.Command) (store.Decision, error) {
		return store.Decision{At: at, Quota: ratelimit.Result{Admitted: true}, Outcome: lockcore.Outcome{Verdict: lockcore.Observed}}, nil
	}})
	_, _ = decide(s, lockcore.Read)
	s.clock.best.Store(&comparison{sent: time.Now()}) // quicker than any
	if n := testing.AllocsPerRun(1000, func() { _, _ = decide(s, lockcore.Read) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	inner := &stub{func(lockcore.Command) (store.Decision, error) {
		return store.Decision{At: time.Now(), Quota: ratelimit.Result{Admitted: true}, Outcome: lockcore.Outcome{Verdict: lockcore.Observed}}, nil
	}}
	measured := newStore(b, inner)
	for name, s := range map[string]store.Store{"guarded": measured.Guard, "guarded and measured": measured} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = decide(s, lockcore.Read)
				}
			})
		})
	}
}
