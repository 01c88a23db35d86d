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
	c := newCaller(t, openStill(t, server.URL(), Single))
	thousand := func() {
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { _, _ = c.call(lockcore.Acquire, "key") }) // accounted for
		}
		all.Wait()
	}
	thousand()
	if failed := c.unknown.Load() + c.notApplied.Load(); failed > 0 {
		t.Fatalf("%d calls failed before any outage", failed)
	}
	goroutines := runtime.NumGoroutine()

	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", s.kill, s.restart},
		{"frozen", s.freeze, s.unfreeze},
	} {
		before := c.decided.Load()
		outage.begin()
		for range 3 {
			thousand()
		}
		if got := c.decided.Load() - before; got != 0 {
			t.Errorf("%d of 3000 calls were decided by a server that was %s", got, outage.name)
		}
		outage.end()
		c.recovers()
		before = c.decided.Load()
		thousand()
		if got := c.decided.Load() - before; got != 1000 {
			t.Errorf("%d of 1000 calls were decided after the server was %s", got, outage.name)
		}
		redistest.Until(t, "the goroutines have ended", func(context.Context) error {
			if now := runtime.NumGoroutine(); now > goroutines {
				return fmt.Errorf("%d now, %d before", now, goroutines)
			}
			return nil
		})
		redistest.Until(t, "the connections are closed", func(ctx context.Context) error {
			held, most := c.s.client.PoolStats().TotalConns, uint32(2*pipelines)
			seen, err := s.client.InfoMap(ctx, "clients").Result()
			connected := seen["Clients"]["connected_clients"]
			if n, _ := strconv.Atoi(connected); err == nil && (held > most || n < 1 || n > int(most)+1) {
				err = fmt.Errorf("the store holds %d, the server sees %s", held, connected)
			}
			return err
		})
	}
	c.applied(s.client)
}
