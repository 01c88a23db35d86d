package redisstore

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
	"github.com/project-locks/gateway/lockcore/store/storetest"
)

func TestConformanceWithSentinels(t *testing.T) {
	t.Parallel()
	servers := redistest.StartSentinels(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s := openWith(t, servers.URL(), Sentinel, timeout)
		return storetest.Harness{Store: s, SetNow: s.setNow}
	})
}

func TestAFailOverEndsByItself(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail    func(*testing.T, *redistest.Server)
		timeout time.Duration
	}{
		"killed": {func(_ *testing.T, s *redistest.Server) { s.Kill() }, timeout},
		"frozen": {func(t *testing.T, s *redistest.Server) { s.Signal(t, syscall.SIGSTOP) }, short},
	} {
		t.Run("the primary is "+name, func(t *testing.T) {
			t.Parallel()
			servers := redistest.StartSentinels(t)
			// Its own clock: the last token may be lost with the primary.
			s := openWith(t, servers.URL(), Sentinel, test.timeout)
			load := startLoad(t, callers(t, s, 4)...)
			load.settle(t)
			test.fail(t, servers.Primary)
			redistest.Until(t, "the load meets the failure", load.hasFailed)
			redistest.Until(t, "the replica takes over", isPrimary(t, servers.Replica))
			load.isServedAgain()
			load.settle(t)
			load.end()
			must(t, ping(s))
		})
	}
}

func TestAPrimaryServesWithoutSentinels(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]struct {
		begin, end func(*testing.T, *redistest.Server)
	}{
		"killed": {
			func(_ *testing.T, s *redistest.Server) { s.Kill() },
			func(t *testing.T, s *redistest.Server) { s.Restart(t) },
		},
		"frozen": {
			func(t *testing.T, s *redistest.Server) { s.Signal(t, syscall.SIGSTOP) },
			func(t *testing.T, s *redistest.Server) { s.Signal(t, syscall.SIGCONT) },
		},
	} {
		t.Run("the sentinels are "+name, func(t *testing.T) {
			t.Parallel()
			servers := redistest.StartSentinels(t)
			client := servers.Primary.Client(t)
			known := newCaller(t, openStill(t, servers.URL(), Sentinel, timeout))
			known.mustDecide(lockcore.Acquire, "key")
			for _, watch := range servers.Watch {
				lose.begin(t, watch)
			}
			known.mustDecide(lockcore.Renew, "key")

			late := newCaller(t, openStill(t, servers.URL(), Sentinel, short))
			if d, err := late.call(lockcore.Acquire, "key"); !errors.Is(err, store.ErrNotApplied) {
				t.Errorf("a store that knows no primary: decision %+v, error %v", d, err)
			}
			for _, watch := range servers.Watch {
				lose.end(t, watch)
			}
			late.recovers()
			for _, c := range []*caller{known, late} {
				if applied := c.applied(client); applied != 0 {
					t.Errorf("%d calls were carried out too much", applied)
				}
			}
		})
	}
}
