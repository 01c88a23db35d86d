package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// Not parallel: it counts the goroutines of the process.
func TestAThousandCallsInAnOutageLeaveNothingBehind(t *testing.T) {
	server := redistest.Start(t)
	s := &scene{T: t, server: server, client: server.Client(t)}
	c := newCaller(t, openStill(t, server.URL(), Single, short))
	thousand := func() (decided int64) {
		before := c.decided.Load()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { _, _ = c.call(lockcore.Acquire, "key") }) // accounted for
		}
		all.Wait()
		return c.decided.Load() - before
	}
	allDecided := func(context.Context) error { // fits redistest.Until
		if got := thousand(); got != 1000 {
			return fmt.Errorf("%d of 1000, the last error is %w", got, *c.lastErr.Load())
		}
		return nil
	}
	redistest.Until(t, "a thousand calls are decided", allDecided)
	goroutines := runtime.NumGoroutine()

	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", s.kill, s.restart},
		{"frozen", s.freeze, s.unfreeze},
	} {
		outage.begin()
		for range 3 {
			if got := thousand(); got != 0 {
				t.Errorf("%d of 1000 calls were decided by a server that was %s", got, outage.name)
			}
		}
		outage.end()
		c.recovers()
		redistest.Until(t, "a thousand calls are decided again", allDecided)
		redistest.Until(t, "the goroutines have ended", func(context.Context) error {
			if now := runtime.NumGoroutine(); now > goroutines {
				return fmt.Errorf("%d now, %d before", now, goroutines)
			}
			return nil
		})
		s.holdsAtMost(2 * pipelines)
	}
	c.applied(s.client)
	must(t, c.s.Close())
	s.holdsAtMost(0)
}

// holdsAtMost waits until the server sees that few connections of the store.
func (s *scene) holdsAtMost(connections int) {
	s.Helper()
	redistest.Until(s, "the connections are closed", func(ctx context.Context) error {
		clients, err := s.client.InfoMap(ctx, "clients").Result()
		if err != nil {
			return err
		}
		seen, err := strconv.Atoi(clients["Clients"]["connected_clients"])
		if own := 1; err == nil && seen > connections+own {
			err = fmt.Errorf("the server sees %d", seen-own)
		}
		return err
	})
}
