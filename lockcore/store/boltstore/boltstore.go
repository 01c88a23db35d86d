// Package boltstore keeps locks in one bbolt file: the embedded store, for one
// process and no server beside it.
//
// Every decision is on disk before it is answered; calls that wait together
// share one commit. The clock is the process's, held so that it never runs
// backwards. Quota counters live in memory: a restart begins new windows.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

var _ store.Store = (*Store)(nil)

// Store is the embedded store.Store.
type Store struct {
	db      *bbolt.DB
	clock   *clock
	batcher *store.Batcher
	stop    context.CancelFunc
	sweeper sync.WaitGroup

	// The batcher's one worker alone uses these.
	minute  time.Time // of the decision made last
	windows map[ratelimit.Account]ratelimit.Window
}

// Open opens the file at path, made with its folder when missing. It fails at
// once when another process has the file open.
func Open(path string) (*Store, error) { return open(path, time.Now) }

func open(path string, now func() time.Time) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of store file %s: %w", path, err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        time.Millisecond, // one try for the file lock
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // rebuilt on opening; makes commits smaller
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("store file %s is in use by another process: stop that one, give this one its own file, or share a Redis", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening store file %s: %w", path, err)
	}
	if err := db.Update(makeBuckets); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing store file %s: %w", path, err), db.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{db: db, clock: &clock{now: now}, windows: map[ratelimit.Account]ratelimit.Window{}, stop: stop}
	s.batcher = store.NewBatcher(1, s.run)
	s.sweeper.Go(func() { s.sweepUntil(ctx) })
	return s, nil
}

// Decide implements store.Store.
func (s *Store) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	return s.batcher.Decide(ctx, charge, command)
}

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error { return store.Probe(ctx, s) }

// Batches tells how calls were grouped.
func (s *Store) Batches() store.BatchStats { return s.batcher.Stats() }

// Close implements store.Store.
func (s *Store) Close() error {
	s.stop()
	s.sweeper.Wait()
	s.batcher.Close()
	return s.db.Close()
}

// run decides a batch in one transaction.
func (s *Store) run(calls []*store.Call) {
	err := s.transact(calls)
	if err == nil {
		return
	}
	for _, call := range calls {
		call.Decision, call.Err = store.Decision{}, err
	}
}

func (s *Store) transact(calls []*store.Call) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrNotApplied, err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	dirty := false
	for _, call := range calls {
		changed, err := s.decide(tx, call)
		if err != nil {
			call.Err = err
		}
		dirty = dirty || changed
	}
	if !dirty {
		return nil // nothing to make durable
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return nil
}

// decide applies both rules to one call and says whether it wrote anything.
func (s *Store) decide(tx *bbolt.Tx, call *store.Call) (changed bool, err error) {
	project, key := call.Charge.Project, call.Command.Key
	before, err := load(tx, project, key)
	if err != nil {
		return false, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	now := s.clock.read()
	call.Decision = store.Decision{At: now, Quota: s.count(call.Charge, now)}
	if !call.Decision.Quota.Admitted {
		return false, nil
	}
	after, outcome := lockcore.Step(before, call.Command, now)
	call.Decision.Outcome = outcome
	if err := save(tx, project, key, before, after); err != nil {
		return false, fmt.Errorf("%w: %w", store.ErrNotApplied, err)
	}
	return after != before, nil
}

// count applies the quota rule. All windows begin at the same moment, so a new
// minute forgets every counter of the old one.
func (s *Store) count(charge ratelimit.Charge, now time.Time) ratelimit.Result {
	if minute := ratelimit.WindowStart(now); !minute.Equal(s.minute) {
		s.minute = minute
		clear(s.windows)
	}
	key := charge.Account()
	w, result := ratelimit.Take(s.windows[key], charge, now)
	s.windows[key] = w
	return result
}

// clock is the store's clock: the process's, in whole microseconds, except that it never runs backwards.
type clock struct {
	now  func() time.Time
	mu   sync.Mutex
	last time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now().Truncate(time.Microsecond).UTC(); now.After(c.last) {
		c.last = now
	}
	return c.last
}
