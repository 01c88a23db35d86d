package ratelimit_test

import (
	"testing"
	"time"

	"github.com/project-locks/gateway/lockcore/store/storetest"
	"github.com/project-locks/gateway/ratelimit"
)

func TestTake(t *testing.T) {
	for _, c := range storetest.TakeCases(t, "testdata/window.json") {
		t.Run(c.Name, func(t *testing.T) {
			after, result := ratelimit.Take(c.Before, ratelimit.Charge{Limit: c.Limit}, c.Now)
			want := ratelimit.NewResult(c.Admitted, c.Limit, c.Used, c.Now)
			if result != want {
				t.Errorf("result %+v, want %+v", result, want)
			}
			if after != c.After {
				t.Errorf("window after %+v, want %+v", after, c.After)
			}
		})
	}
}

func TestRetryAfterLeadsIntoTheNextWindow(t *testing.T) {
	for _, c := range []struct {
		into time.Duration // the window
		want int64
	}{
		{0, 60},
		{time.Microsecond, 60},
		{time.Second - time.Microsecond, 60},
		{time.Second, 59},
		{59 * time.Second, 1},
		{time.Minute - time.Microsecond, 1},
	} {
		now := storetest.T.Add(c.into)
		_, r := ratelimit.Take(ratelimit.Window{}, ratelimit.Charge{Limit: 1}, now)
		if got := r.RetryAfter(now); got != c.want {
			t.Errorf("%v into the window: Retry-After %d, want %d", c.into, got, c.want)
		}
		if slept := now.Add(time.Duration(c.want) * time.Second); slept.Before(r.Reset) {
			t.Errorf("%v into the window: sleeping %d s ends before the window does", c.into, c.want)
		}
	}
}

func TestRemainingIsNeverNegative(t *testing.T) {
	if got := (ratelimit.Result{Limit: 20, Used: 30}).Remaining(); got != 0 {
		t.Errorf("remaining %d, want 0", got)
	}
}
