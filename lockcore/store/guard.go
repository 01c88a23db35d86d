package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/ratelimit"
)

const (
	checkHealthy = 10 * time.Second       // between looks at a store that decides
	checkDown    = 250 * time.Millisecond // between looks at one that does not
)

// Guard refuses at once while its store is known to be down, so that an outage
// does not make every request wait for its deadline. A failed decision, or a
// failed look from time to time, makes the store known to be down; a look that
// succeeds ends that.
type Guard struct {
	Store
	timeout time.Duration
	down    atomic.Pointer[error] // why; nil: not known to be down
	suspect chan struct{}         // wakes the watch
	stop    context.CancelFunc
	watch   sync.WaitGroup
}

// NewGuard watches over s until it is closed, and closes s with it. timeout
// bounds one look; the first is over when NewGuard returns, so no request is
// decided by a store that has not been looked at.
func NewGuard(s Store, timeout time.Duration) *Guard {
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{Store: s, timeout: timeout, suspect: make(chan struct{}, 1), stop: stop}
	err := g.look(ctx)
	g.watch.Go(func() { g.watchUntil(ctx, err) })
	return g
}

// Decide implements Store.
func (g *Guard) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (Decision, error) {
	if why := g.down.Load(); why != nil {
		return Decision{}, fmt.Errorf("%w: %s", ErrDown, (*why).Error()) // not why's own outcome: this one is known
	}
	d, err := g.Store.Decide(ctx, charge, command)
	if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrMoving) {
		g.set(err)
		select {
		case g.suspect <- struct{}{}:
		default: // the watch is awake
		}
	}
	return d, err
}

// Down reports whether the store is known to be down.
func (g *Guard) Down() bool { return g.down.Load() != nil }

// Close implements Store.
func (g *Guard) Close() error {
	g.stop()
	g.watch.Wait()
	return g.Store.Close()
}

func (g *Guard) watchUntil(ctx context.Context, err error) {
	for ; ; err = g.look(ctx) {
		pause := checkHealthy
		if err != nil {
			pause = checkDown
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-g.suspect:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (g *Guard) look(ctx context.Context) error {
	look, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	err := g.Ping(look)
	if ctx.Err() == nil {
		g.set(err)
	}
	return err
}

// set notes whether the store is down and logs when that changes.
func (g *Guard) set(err error) {
	if err != nil {
		if g.down.Swap(&err) == nil {
			slog.Error("the store cannot decide: lock requests get 503 until it can", "error", err)
		}
		return
	}
	if g.down.Swap(nil) != nil {
		slog.Info("the store decides again")
	}
}
