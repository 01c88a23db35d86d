package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/ratelimit"
)

// Batcher gathers concurrent calls of Decide, so that one commit or one round
// trip serves all that wait: a lone call goes at once, and calls that arrive
// meanwhile form the next batch.
type Batcher struct {
	queue   chan *Call
	closing chan struct{} // closed to stop the workers
	workers sync.WaitGroup
	once    sync.Once

	batches, calls atomic.Uint64 // that were run
}

// BatchStats is what a Batcher has done, and has to do.
type BatchStats struct {
	Batches uint64 // that were run
	Calls   uint64 // in them
	Waiting int    // calls that no worker has taken yet
}

// Call is one request on its way through a Batcher.
type Call struct {
	Charge   ratelimit.Charge
	Command  lockcore.Command
	Decision Decision
	Err      error

	taken atomic.Bool // by a worker, or by its caller giving up: whoever is first
	done  chan struct{}
}

const (
	batchSize = 512  // calls served together at most
	queueSize = 4096 // calls that wait at most; more wait outside, until their deadline
)

var errClosed = fmt.Errorf("%w: it is closed", ErrNotApplied)

// NewBatcher starts workers that hand batches to run, each one batch at a
// time. run sets Decision or Err of every call.
func NewBatcher(workers int, run func([]*Call)) *Batcher {
	b := &Batcher{queue: make(chan *Call, queueSize), closing: make(chan struct{})}
	for range workers {
		b.workers.Go(func() { b.work(run) })
	}
	return b
}

// Decide runs one call in the next batch. A call whose ctx ends before a
// worker has taken it is never run, and that is what its error says.
func (b *Batcher) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (Decision, error) {
	call := &Call{Charge: charge, Command: command, done: make(chan struct{})}
	select {
	case b.queue <- call:
	case <-ctx.Done():
		return Decision{}, notApplied(ctx)
	case <-b.closing:
		return Decision{}, errClosed
	}
	select {
	case <-call.done:
		return call.Decision, call.Err
	case <-ctx.Done():
	case <-b.closing:
	}
	if call.taken.CompareAndSwap(false, true) {
		return Decision{}, notApplied(ctx)
	}
	select { // it is being carried out: what ends first, the work or the wait?
	case <-call.done:
		return call.Decision, call.Err
	case <-ctx.Done():
		return Decision{}, fmt.Errorf("%w: no answer in time", ErrUnknown)
	}
}

func notApplied(ctx context.Context) error {
	if ctx.Err() == nil {
		return errClosed
	}
	return fmt.Errorf("%w: it was busy for too long", ErrNotApplied)
}

// Close lets batches under way finish and refuses everything else.
func (b *Batcher) Close() {
	b.once.Do(func() { close(b.closing) })
	b.workers.Wait()
}

func (b *Batcher) work(run func([]*Call)) {
	batch := make([]*Call, 0, batchSize)
	for {
		select {
		case call := <-b.queue:
			batch = b.gather(append(batch[:0], call))
		case <-b.closing:
			return
		}
		if len(batch) == 0 {
			continue
		}
		b.batches.Add(1)
		b.calls.Add(uint64(len(batch)))
		run(batch)
		for _, call := range batch {
			close(call.done)
		}
		clear(batch)
	}
}

// gather adds what waits already and drops what its caller has given up.
func (b *Batcher) gather(batch []*Call) []*Call {
	for len(batch) < batchSize {
		select {
		case call := <-b.queue:
			batch = append(batch, call)
			continue
		default:
		}
		break
	}
	kept := batch[:0]
	for _, call := range batch {
		if call.taken.CompareAndSwap(false, true) {
			kept = append(kept, call)
		}
	}
	return kept
}

// Stats may be asked at any time.
func (b *Batcher) Stats() BatchStats {
	return BatchStats{Batches: b.batches.Load(), Calls: b.calls.Load(), Waiting: len(b.queue)}
}
