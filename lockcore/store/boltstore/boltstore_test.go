package boltstore

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store/storetest"
	"github.com/project-locks/gateway/ratelimit"
)

// manual is a clock that tests move.
type manual struct{ at atomic.Pointer[time.Time] }

func (m *manual) set(t time.Time) { m.at.Store(&t) }
func (m *manual) now() time.Time  { return *m.at.Load() }

func openManual(t testing.TB, path string) (*Store, *manual) {
	t.Helper()
	clock := &manual{}
	clock.set(storetest.T)
	s, err := open(path, clock.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, clock
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s, clock := openManual(t, filepath.Join(t.TempDir(), "locks.db"))
		return storetest.Harness{Store: s, SetNow: clock.set}
	})
}

func TestASecondProcessOnTheFileIsToldAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	openManual(t, path)
	_, err := Open(path)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("error %v does not say that %s is in use", err, path)
	}
}

func TestLeasesAndTokensSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	charge := ratelimit.Charge{Project: uuid.New(), Limit: 100}
	acquire := lockcore.Command{Op: lockcore.Acquire, Key: "key", Owner: storetest.Me, TTL: lockcore.MinTTL}
	s, _ := openManual(t, path)
	before, err := s.Decide(t.Context(), charge, acquire)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = openManual(t, path)
	after, err := s.Decide(t.Context(), charge, lockcore.Command{Op: lockcore.Read, Key: "key"})
	if err != nil || after.Outcome.Fence != before.Outcome.Fence || after.Outcome.ExpiresAt != before.Outcome.ExpiresAt {
		t.Fatalf("after the restart %+v, %v; before %+v", after.Outcome, err, before.Outcome)
	}
	if _, err := s.Decide(t.Context(), charge, lockcore.Command{Op: lockcore.ForceRelease, Key: "key"}); err != nil {
		t.Fatal(err)
	}
	again, err := s.Decide(t.Context(), charge, acquire)
	if err != nil || again.Outcome.Fence <= before.Outcome.Fence {
		t.Fatalf("token %d after %d, %v", again.Outcome.Fence, before.Outcome.Fence, err)
	}
}

func TestTheClockNeverRunsBackwards(t *testing.T) {
	m := &manual{}
	c := &clock{now: m.now}
	m.set(storetest.T)
	first := c.read()
	m.set(storetest.T.Add(-time.Hour))
	if got := c.read(); !got.Equal(first) {
		t.Fatalf("after %v the clock says %v", first, got)
	}
}

func TestSweepingRemovesWhatIsForgottenAndNothingElse(t *testing.T) {
	s, clock := openManual(t, filepath.Join(t.TempDir(), "locks.db"))
	charge := ratelimit.Charge{Project: uuid.New(), Limit: 1_000_000}
	const short, long = 1500, 500
	for i := range short + long {
		ttl := lockcore.MinTTL
		if i%4 == 0 {
			ttl = time.Hour
		}
		key := strconv.Itoa(i)
		if _, err := s.Decide(t.Context(), charge, lockcore.Command{Op: lockcore.Acquire, Key: key, Owner: storetest.Me, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	sweepAll := func() int {
		var position []byte
		removed := 0
		for {
			next, n, err := s.sweep(position)
			if err != nil {
				t.Fatal(err)
			}
			if position, removed = next, removed+n; position == nil {
				return removed
			}
		}
	}
	forgotten := storetest.T.Add(lockcore.MinTTL + lockcore.Grace + lockcore.Memory)
	clock.set(forgotten.Add(-time.Microsecond))
	if got := sweepAll(); got != 0 {
		t.Fatalf("%d leases were swept while they are remembered", got)
	}
	clock.set(forgotten)
	sweepAll() // the sweeper in the background may have been first
	left := 0
	_ = s.db.View(func(tx *bbolt.Tx) error {
		left = tx.Bucket(leasesBucket).Stats().KeyN
		return nil
	})
	if left != long {
		t.Fatalf("%d records are left, want the %d that live", left, long)
	}
}

func TestADamagedRecordFailsClosedAndAlone(t *testing.T) {
	s, _ := openManual(t, filepath.Join(t.TempDir(), "locks.db"))
	project := uuid.New()
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(leasesBucket).Put(leaseKey(project, "bad"), []byte("short"))
	})
	if err != nil {
		t.Fatal(err)
	}
	charge := ratelimit.Charge{Project: project, Limit: 10}
	if d, err := s.Decide(t.Context(), charge, lockcore.Command{Op: lockcore.Acquire, Key: "bad", Owner: storetest.Me, TTL: lockcore.MinTTL}); err == nil {
		t.Fatalf("decided over a damaged record: %+v", d)
	}
	if _, err := s.Decide(t.Context(), charge, lockcore.Command{Op: lockcore.Acquire, Key: "good", Owner: storetest.Me, TTL: lockcore.MinTTL}); err != nil {
		t.Fatal(err)
	}
}
