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

// Store measures the decisions of a store and what they were, and traces them.
type Store struct {
	*store.Guard
	tracing  *Tracing // nil: no traces
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
func NewStore(guard *store.Guard, tracing *Tracing) *Store {
	s := &Store{
		Guard:   guard,
		tracing: tracing,
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
	if s.tracing == nil {
		return s.measure(ctx, charge, command)
	}
	ctx, span := s.tracing.decision(ctx, command.Op)
	d, err := s.measure(ctx, charge, command)
	endDecision(span, d, err)
	return d, err
}

func (s *Store) measure(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	sent := time.Now()
	d, err := s.Guard.Decide(ctx, charge, command)
	took := time.Since(sent)
	if err != nil {
		s.failures[outcome(err)].Inc()
		if !errors.Is(err, store.ErrDown) { // otherwise it was not asked, and took no time
			s.duration.Observe(took.Seconds())
		}
		return d, err
	}
	s.duration.Observe(took.Seconds())
	s.clock.compare(sent, took, d.At)
	if counter := s.verdicts[command.Op][d.Outcome.Verdict]; counter != nil && d.Quota.Admitted {
		counter.Inc()
	}
	return d, nil
}

// outcome is what is known of a failure.
func outcome(err error) string {
	switch {
	case errors.Is(err, store.ErrDown):
		return "down"
	case errors.Is(err, store.ErrDamaged):
		return "damaged"
	case errors.Is(err, store.ErrNotApplied):
		return "not_applied"
	}
	return "unknown"
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
