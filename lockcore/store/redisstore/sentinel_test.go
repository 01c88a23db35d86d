package redisstore

import (
	"context"
	"errors"
	"syscall"
	"testing"

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
	for name, fail := range map[string]func(*testing.T, *redistest.Sentinels){
		"killed": func(_ *testing.T, servers *redistest.Sentinels) { servers.Primary.Kill() },
		"frozen": func(t *testing.T, servers *redistest.Sentinels) { servers.Primary.Signal(t, syscall.SIGSTOP) },
	} {
		t.Run("the primary is "+name, func(t *testing.T) {
			t.Parallel()
			servers := redistest.StartSentinels(t)
			// Its own clock: the last token may be lost with the primary.
			s := openWith(t, servers.URL(), Sentinel, short)
			all := startLoad(callers(t, s, 4)...)
			all.settle(t)
			fail(t, servers)
			redistest.Until(t, "the load meets the failure", all.hasFailed)
			redistest.Until(t, "the replica takes over", isPrimary(t, servers.Replica))
			for _, c := range all.callers {
				c.isServedAgain()
			}
			all.settle(t)
			all.end()
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
			known := newCaller(t, openStill(t, servers.URL(), Sentinel))
			known.mustDecide(lockcore.Acquire, "key")
			for _, watch := range servers.Watch {
				lose.begin(t, watch)
			}
			known.mustDecide(lockcore.Renew, "key")

			late := newCaller(t, openStill(t, servers.URL(), Sentinel))
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

// hasFailed fits redistest.Until.
func (l *load) hasFailed(context.Context) error {
	if l.failures() == 0 {
		return errors.New("no call has failed yet")
	}
	return nil
}
