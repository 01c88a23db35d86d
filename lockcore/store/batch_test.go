package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// gate is a run function that tests hold shut.
type gate struct {
	entered chan int // sizes of batches
	open    chan struct{}
	ran     atomic.Int64
}

func newGate() *gate { return &gate{entered: make(chan int, 100), open: make(chan struct{})} }

func (g *gate) run(calls []*store.Call) {
	g.entered <- len(calls)
	<-g.open
	g.ran.Add(int64(len(calls)))
	for _, call := range calls {
		call.Decision.Quota.Used = call.Charge.Limit
	}
}

func start(ctx context.Context, b *store.Batcher, limit int64) <-chan error {
	result := make(chan error, 1)
	go func() {
		d, err := b.Decide(ctx, ratelimit.Charge{Limit: limit}, lockcore.Command{})
		if err == nil && d.Quota.Used != limit {
			err = errors.New("the call got another call's answer")
		}
		result <- err
	}()
	return result
}

func TestCallsThatWaitTogetherFormOneBatch(t *testing.T) {
	g := newGate()
	b := store.NewBatcher(1, g.run)
	defer b.Close()
	first := start(t.Context(), b, 1)
	if got := <-g.entered; got != 1 {
		t.Fatalf("a lone call waited for company: batch of %d", got)
	}
	const waiting = 50
	var results []<-chan error
	for i := range waiting {
		results = append(results, start(t.Context(), b, int64(i+2)))
	}
	for b.Stats().Waiting < waiting {
		time.Sleep(time.Millisecond)
	}
	close(g.open)
	if got := <-g.entered; got != waiting {
		t.Errorf("%d calls waited, the next batch has %d", waiting, got)
	}
	for _, r := range append(results, first) {
		if err := <-r; err != nil {
			t.Error(err)
		}
	}
}

func TestACallGivenUpInTheQueueIsNeverRun(t *testing.T) {
	g := newGate()
	b := store.NewBatcher(1, g.run)
	defer b.Close()
	first := start(t.Context(), b, 1)
	<-g.entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := <-start(ctx, b, 2); !errors.Is(err, store.ErrNotApplied) {
		t.Fatalf("error %v, want %v", err, store.ErrNotApplied)
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := <-start(t.Context(), b, 3); err != nil {
		t.Fatal(err)
	}
	if got := g.ran.Load(); got != 2 {
		t.Errorf("%d calls ran, want the two that were not given up", got)
	}
}

func TestACallGivenUpUnderWayIsUnknown(t *testing.T) {
	g := newGate()
	b := store.NewBatcher(1, g.run)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := start(ctx, b, 1)
	<-g.entered
	cancel()
	if err := <-call; !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("error %v, want %v", err, store.ErrUnknown)
	}
	close(g.open)
	b.Close()
}

func TestClosingFinishesWhatIsUnderWayAndRefusesTheRest(t *testing.T) {
	g := newGate()
	b := store.NewBatcher(1, g.run)
	underWay := start(t.Context(), b, 1)
	<-g.entered
	queued := start(t.Context(), b, 2)
	for b.Stats().Waiting < 1 {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan struct{})
	go func() { b.Close(); close(closed) }()
	if err := <-queued; !errors.Is(err, store.ErrNotApplied) {
		t.Errorf("queued: %v, want %v", err, store.ErrNotApplied)
	}
	close(g.open)
	if err := <-underWay; err != nil {
		t.Errorf("under way: %v", err)
	}
	<-closed
	if err := <-start(t.Context(), b, 3); !errors.Is(err, store.ErrNotApplied) {
		t.Errorf("after closing: %v, want %v", err, store.ErrNotApplied)
	}
}
