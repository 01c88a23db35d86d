package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// Store measures the decisions of a store and what they were.
type Store struct {
	*store.Guard
	up       prometheus.GaugeFunc
	duration prometheus.Histogram
	failures map[string]prometheus.Counter
	verdicts [lockcore.ForceRelease + 1][lockcore.OwnershipLost + 1]prometheus.Counter
	clock    *clock
	all      []prometheus.Collector
}

var (
	_ store.Store          = (*Store)(nil)
	_ prometheus.Collector = (*Store)(nil)
)

// NewStore measures what passes the guard, and how the guard sees its store.
func NewStore(guard *store.Guard) *Store {
	s := &Store{
		Guard: guard,
		up: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_store_up",
			Help: "0 while the store is known to be down and lock requests are refused without asking it, otherwise 1.",
		}, func() float64 { return number(!guard.Down()) }),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "gateway_store_decision_duration_seconds",
			Help:    "How long the store took to decide, or to fail to.",
			Buckets: durations,
		}),
		clock: newClock(),
	}
	failures := s.countFailures()
	verdicts := s.countVerdicts()
	s.all = []prometheus.Collector{s.up, s.duration, failures, verdicts, s.clock.difference}
	return s
}

func (s *Store) countFailures() *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_store_failures_total",
		Help: "Decisions that failed, by what is known of them.",
	}, []string{"outcome"})
	s.failures = map[string]prometheus.Counter{}
	for _, outcome := range []string{"not_applied", "damaged", "down", "unknown"} {
		s.failures[outcome] = vec.WithLabelValues(outcome)
	}
	return vec
}

// countVerdicts begins at zero with each operation and its possible verdicts,
// so that the first takeover shows as an increase.
func (s *Store) countVerdicts() *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_lease_decisions_total",
		Help: "Requests that the quota admitted, by what the lease rule made of them.",
	}, []string{"operation", "verdict"})
	for op, verdicts := range map[lockcore.Op][]lockcore.Verdict{
		lockcore.None: {lockcore.Nothing},
		lockcore.Acquire: {
			lockcore.Granted, lockcore.TakenOver, lockcore.Extended, lockcore.LockHeld, lockcore.OwnershipLost,
		},
		lockcore.Renew:        {lockcore.Extended, lockcore.OwnershipLost},
		lockcore.Release:      {lockcore.Released, lockcore.OwnershipLost},
		lockcore.Read:         {lockcore.Observed},
		lockcore.ForceRelease: {lockcore.Released},
	} {
		for _, verdict := range verdicts {
			s.verdicts[op][verdict] = vec.WithLabelValues(op.String(), verdict.String())
		}
	}
	return vec
}

// Decide implements store.Store.
func (s *Store) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	sent := time.Now()
	d, err := s.Guard.Decide(ctx, charge, command)
	took := time.Since(sent)
	if err != nil {
		s.failed(err, took)
		return d, err
	}
	s.duration.Observe(took.Seconds())
	s.clock.compare(sent, took, d.At)
	if counter := s.verdicts[command.Op][d.Outcome.Verdict]; counter != nil && d.Quota.Admitted {
		counter.Inc()
	}
	return d, nil
}

func (s *Store) failed(err error, took time.Duration) {
	outcome := "unknown"
	switch {
	case errors.Is(err, store.ErrDown):
		s.failures["down"].Inc()
		return // it was not asked, so it took no time
	case errors.Is(err, store.ErrDamaged):
		outcome = "damaged"
	case errors.Is(err, store.ErrNotApplied):
		outcome = "not_applied"
	}
	s.failures[outcome].Inc()
	s.duration.Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.all {
		c.Collect(ch)
	}
}
