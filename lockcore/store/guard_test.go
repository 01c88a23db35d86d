package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// fake is a store whose health tests set.
type fake struct {
	mu     sync.Mutex
	err    error
	pings  int
	asked  int
	decide func() store.Decision
}

func (f *fake) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) counts() (asked, pings int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.pings
}

func (f *fake) Decide(context.Context, ratelimit.Charge, lockcore.Command) (store.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.decide == nil {
		return store.Decision{}, f.err
	}
	return f.decide(), f.err
}

func (f *fake) Ping(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pings++
	return f.err
}

func (*fake) Close() error { return nil }

var errDown = fmt.Errorf("%w: test", store.ErrUnknown)

func guarded(t *testing.T, f *fake) (decide func() error) {
	t.Helper()
	g := store.NewGuard(f, time.Second)
	t.Cleanup(func() { _ = g.Close() })
	return func() error {
		_, err := g.Decide(t.Context(), ratelimit.Charge{}, lockcore.Command{})
		return err
	}
}

func TestAKnownOutageIsRefusedWithoutAskingTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		decide := guarded(t, f)
		if err := decide(); err != nil {
			t.Fatal(err)
		}
		f.set(errDown)
		if err := decide(); !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("the request that finds the outage: %v", err)
		}
		before, _ := f.counts()
		if err := decide(); !errors.Is(err, store.ErrNotApplied) {
			t.Fatalf("during the outage: %v", err)
		}
		if after, _ := f.counts(); after != before {
			t.Error("the store was asked during the known outage")
		}
		f.set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := decide(); err != nil {
			t.Errorf("two seconds after the store came back: %v", err)
		}
	})
}

func TestAnOutageIsFoundWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		decide := guarded(t, f)
		f.set(errDown)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := decide(); !errors.Is(err, store.ErrNotApplied) {
			t.Errorf("a minute into the outage: %v", err)
		}
		if asked, _ := f.counts(); asked != 0 {
			t.Errorf("the store was asked %d times", asked)
		}
	})
}

func TestATroubleOfOneProjectIsNoOutage(t *testing.T) {
	for _, trouble := range []error{store.ErrDamaged, store.ErrMoving} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			decide := guarded(t, f)
			_, looks := f.counts()
			f.set(trouble)
			for range 3 {
				if err := decide(); !errors.Is(err, trouble) {
					t.Fatalf("error %v, want %v", err, trouble)
				}
			}
			synctest.Wait()
			if _, after := f.counts(); after != looks {
				t.Error("the guard looked at the store")
			}
		})
	}
}

func exhaustedAfter(used, limit int64, now func() time.Time) *fake {
	return &fake{decide: func() store.Decision {
		at := now()
		return store.Decision{At: at, Quota: ratelimit.NewResult(false, limit, used, at)}
	}}
}

func TestAnExhaustedProjectIsRefusedFromMemoryUntilItsWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := 17 * time.Hour // the store's clock need not be ours
		f := exhaustedAfter(20, 20, func() time.Time { return time.Now().Add(ahead).UTC() })
		e := store.NewExhausted(f)
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 30500*time.Millisecond))) // into a minute
		charge := ratelimit.Charge{Project: uuid.New(), Limit: 20}
		ask := func() store.Decision {
			d, err := e.Decide(t.Context(), charge, lockcore.Command{})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		first := ask()
		time.Sleep(10 * time.Second)
		again := ask()
		if f.asked != 1 || again.Quota != first.Quota {
			t.Fatalf("the store was asked %d times; quota %+v, first %+v", f.asked, again.Quota, first.Quota)
		}
		if got := again.Quota.RetryAfter(again.At); got != 20 {
			t.Errorf("Retry-After %d, want 20", got)
		}
		other := charge
		other.Project = uuid.New()
		if _, err := e.Decide(t.Context(), other, lockcore.Command{}); err != nil || f.asked != 2 {
			t.Errorf("another project: asked %d times, %v", f.asked, err)
		}
		time.Sleep(20 * time.Second) // what Retry-After said
		if ask(); f.asked != 3 {
			t.Errorf("in the next window the store was asked %d times, want 3", f.asked)
		}
	})
}

func TestAChangedLimitForgetsTheExhaustion(t *testing.T) {
	f := exhaustedAfter(20, 20, time.Now)
	e := store.NewExhausted(f)
	project := uuid.New()
	for _, limit := range []int64{20, 21} {
		if _, err := e.Decide(t.Context(), ratelimit.Charge{Project: project, Limit: limit}, lockcore.Command{}); err != nil {
			t.Fatal(err)
		}
	}
	if f.asked != 2 {
		t.Errorf("the store was asked %d times, want once per limit", f.asked)
	}
}
