package telemetry

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// want compares metrics with what a scrape must show.
func want(t *testing.T, c prometheus.Collector, text string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(c, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

// observations of a histogram.
func observations(t *testing.T, o prometheus.Observer) uint64 {
	t.Helper()
	var m dto.Metric
	if err := o.(prometheus.Metric).Write(&m); err != nil { //nolint:errcheck // it is one
		t.Fatal(err)
	}
	return m.GetHistogram().GetSampleCount()
}

// everything is a registry with one of each.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := NewRegistry()
	registry.MustRegister(
		NewBuild("1", "2", "3"), NewRequests(Answer{None, 404, "not_found"}), NewRefusals(time.Now),
		newStore(t, &stub{}),
		NewBatches(func() store.BatchStats { return store.BatchStats{} }),
		NewPool(func() *redis.PoolStats { return &redis.PoolStats{} }),
		NewPolicy(func() configs.PolicyStatus { return configs.PolicyStatus{} }),
		NewAudit(func() uint64 { return 0 }),
		NewKeySet(func() auth.KeyURLStatus { return auth.KeyURLStatus{} }),
		NewForwarding(func() int64 { return 0 }),
	)
	return registry
}

// stub is a store that answers what a test wants.
type stub struct {
	decide func(lockcore.Command) (store.Decision, error)
}

func (s *stub) Decide(_ context.Context, _ ratelimit.Charge, c lockcore.Command) (store.Decision, error) {
	return s.decide(c)
}
func (s *stub) Ping(context.Context) error { return nil }
func (s *stub) Close() error               { return nil }

func newStore(t testing.TB, s store.Store) *Store {
	t.Helper()
	measured := NewStore(store.NewGuard(s, time.Hour), nil)
	t.Cleanup(func() { _ = measured.Close() })
	return measured
}

// decide asks for an operation of no particular project.
func decide(s store.Store, op lockcore.Op) (store.Decision, error) {
	return s.Decide(context.Background(), ratelimit.Charge{Project: uuid.Nil, Limit: 1}, lockcore.Command{Op: op})
}
