package storetest

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// What benchmarks of stores have in common.
const (
	BenchCallers = 64
	BenchLimit   = 1_000_000_000
)

// Bench has 64 callers acquire 10,000 locks, again and again.
func Bench(b *testing.B, s store.Store) {
	charge := ratelimit.Charge{Project: uuid.New(), Limit: BenchLimit}
	var next atomic.Int64
	Callers(b, func() error {
		key := strconv.FormatInt(next.Add(1)%10_000, 10)
		_, err := s.Decide(context.Background(), charge,
			lockcore.Command{Op: lockcore.Acquire, Key: key, Owner: Me, TTL: time.Minute})
		return err
	})
}

// Callers has 64 goroutines do the same in parallel.
func Callers(b *testing.B, do func() error) {
	b.ReportAllocs()
	b.SetParallelism(BenchCallers / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := do(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
