package lockcore_test

import (
	"testing"
	"time"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store/storetest"
)

func TestStep(t *testing.T) {
	for _, c := range storetest.StepCases(t, "testdata/step.json") {
		t.Run(c.Name, func(t *testing.T) {
			after, outcome := lockcore.Step(c.Before, c.Command, c.Now)
			if outcome != c.Outcome {
				t.Errorf("outcome %+v, want %+v", outcome, c.Outcome)
			}
			if after != c.After {
				t.Errorf("state after %+v, want %+v", after, c.After)
			}
		})
	}
}

func TestPhasesMeetWithoutGapOrOverlap(t *testing.T) {
	e := storetest.T
	lease := lockcore.Lease{Owner: storetest.Me, ExpiresAt: e}
	for _, c := range []struct {
		from, to time.Duration // around E, from inclusive, to exclusive
		want     lockcore.Phase
	}{
		{-time.Hour, -time.Second, lockcore.Held},
		{-time.Second, 0, lockcore.Closing},
		{0, time.Second, lockcore.InGrace},
		{time.Second, time.Hour, lockcore.Free},
	} {
		for _, at := range []time.Duration{c.from, c.to - time.Microsecond} {
			if got := lease.Phase(e.Add(at)); got != c.want {
				t.Errorf("at E%+v the lease is %v, want %v", at, got, c.want)
			}
		}
	}
}

func TestFencingTokensFitJavaScriptUntil2255(t *testing.T) {
	last := time.Date(2255, 1, 1, 0, 0, 0, 0, time.UTC)
	after, _ := lockcore.Step(lockcore.State{}, lockcore.Command{Op: lockcore.Acquire, Owner: storetest.Me, TTL: lockcore.MinTTL}, last)
	if after.LastFence > 1<<53-1 {
		t.Errorf("token %d is above 2^53-1", after.LastFence)
	}
}

func TestWordsReadBackAsThemselves(t *testing.T) {
	for op := lockcore.None; op <= lockcore.ForceRelease; op++ {
		if got, err := lockcore.ParseOp(op.String()); got != op || err != nil {
			t.Errorf("%v reads back as %v, %v", op, got, err)
		}
	}
	for v := lockcore.Nothing; v <= lockcore.OwnershipLost; v++ {
		if got, err := lockcore.ParseVerdict(v.String()); got != v || err != nil {
			t.Errorf("%v reads back as %v, %v", v, got, err)
		}
	}
	if _, err := lockcore.ParseVerdict("perhaps"); err == nil {
		t.Error("an unknown word was accepted")
	}
}
