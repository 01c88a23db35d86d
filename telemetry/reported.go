package telemetry

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore/store"
)

// reported are metrics that another part of the program keeps by itself. All
// of one collection come from one report.
type reported[R any] struct {
	report func() R
	values []value[R]
}

type value[R any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	of    func(R) float64
	label func(R) string // nil: no label
}

func counter[R any](name, help string, of func(R) float64) value[R] {
	return value[R]{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, of, nil}
}

func gauge[R any](name, help string, of func(R) float64) value[R] {
	return value[R]{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, of, nil}
}

// info is 1; what there is to say is in its label.
func info[R any](name, label, help string, of func(R) string) value[R] {
	desc := prometheus.NewDesc(name, help, []string{label}, nil)
	return value[R]{desc, prometheus.GaugeValue, func(R) float64 { return 1 }, of}
}

// Describe implements prometheus.Collector.
func (m reported[R]) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.values {
		ch <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (m reported[R]) Collect(ch chan<- prometheus.Metric) {
	r := m.report()
	for _, v := range m.values {
		var labels []string
		if v.label != nil {
			labels = append(labels, v.label(r))
		}
		ch <- prometheus.MustNewConstMetric(v.desc, v.kind, v.of(r), labels...)
	}
}

// NewBatches tells how a store groups its decisions.
func NewBatches(report func() store.BatchStats) prometheus.Collector {
	type stats = store.BatchStats
	return reported[stats]{report, []value[stats]{
		gauge("gateway_store_queue_length", "Decisions that wait for the store to begin with them.",
			func(s stats) float64 { return float64(s.Waiting) }),
		counter("gateway_store_batches_total", "Transactions or round trips of the store.",
			func(s stats) float64 { return float64(s.Batches) }),
		counter("gateway_store_batched_decisions_total", "Decisions in those.",
			func(s stats) float64 { return float64(s.Calls) }),
	}}
}

// NewPool tells of the connections to Redis.
func NewPool(report func() *redis.PoolStats) prometheus.Collector {
	type stats = *redis.PoolStats
	return reported[stats]{report, []value[stats]{
		gauge("gateway_redis_connections", "Open connections.",
			func(s stats) float64 { return float64(s.TotalConns) }),
		gauge("gateway_redis_connections_idle", "Open connections that nothing uses.",
			func(s stats) float64 { return float64(s.IdleConns) }),
		gauge("gateway_redis_pending", "Batches that wait for a connection.",
			func(s stats) float64 { return float64(s.PendingRequests) }),
		counter("gateway_redis_pool_hits_total", "Batches that found an idle connection.",
			func(s stats) float64 { return float64(s.Hits) }),
		counter("gateway_redis_pool_misses_total", "Batches that found none.",
			func(s stats) float64 { return float64(s.Misses) }),
		counter("gateway_redis_pool_waits_total", "Batches that had to wait for a connection.",
			func(s stats) float64 { return float64(s.WaitCount) }),
		counter("gateway_redis_pool_wait_seconds_total", "How long they waited.",
			func(s stats) float64 { return time.Duration(s.WaitDurationNs).Seconds() }),
		counter("gateway_redis_pool_timeouts_total", "Batches that waited in vain.",
			func(s stats) float64 { return float64(s.Timeouts) }),
		counter("gateway_redis_connections_stale_total", "Connections closed because they were idle or open for too long.",
			func(s stats) float64 { return float64(s.StaleConns) }),
		counter("gateway_redis_connections_unusable_total", "Connections found to be broken.",
			func(s stats) float64 { return float64(s.Unusable) }),
	}}
}

// NewAudit tells of the audit log.
func NewAudit(lost func() uint64) prometheus.Collector {
	return reported[uint64]{lost, []value[uint64]{
		counter("gateway_audit_lines_lost_total", "Audit lines that could not be written.",
			func(lost uint64) float64 { return float64(lost) }),
	}}
}

// NewPolicy tells of the policy file.
func NewPolicy(report func() configs.PolicyStatus) prometheus.Collector {
	type status = configs.PolicyStatus
	return reported[status]{report, []value[status]{
		info("gateway_policy_info", "version", "1; its label tells the policy in force: the start of the SHA-256 of the file, or none.",
			func(s status) string { return cmp.Or(s.Version, None) }),
		gauge("gateway_policy_projects", "Projects that the policy in force names.",
			func(s status) float64 { return float64(s.Projects) }),
		gauge("gateway_policy_loaded_timestamp_seconds", "When the policy in force was loaded, in Unix time; 0 without a policy file.",
			func(s status) float64 { return unix(s.LoadedAt) }),
		counter("gateway_policy_reloads_total", "Policies that came into force after the first.",
			func(s status) float64 { return float64(s.Reloads) }),
		counter("gateway_policy_reload_failures_total", "Policy files that were refused.",
			func(s status) float64 { return float64(s.Failures) }),
		gauge("gateway_policy_last_reload_successful", "0 while the policy file was refused and an older one is in force, otherwise 1.",
			func(s status) float64 { return number(s.LastError == "") }),
	}}
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// NewKeySet tells of the keys from a URL.
func NewKeySet(report func() auth.KeyURLStatus) prometheus.Collector {
	type status = auth.KeyURLStatus
	return reported[status]{report, []value[status]{
		gauge("gateway_jwks_keys", "Keys from GATEWAY_JWKS_URL in force.",
			func(s status) float64 { return float64(s.Keys) }),
		counter("gateway_jwks_reloads_total", "Key sets that came into force after the first.",
			func(s status) float64 { return float64(s.Reloads) }),
		counter("gateway_jwks_fetches_total", "Fetches of the key set.",
			func(s status) float64 { return float64(s.Fetches) }),
		counter("gateway_jwks_failures_total", "Fetches that failed or were refused; the last good set stays in force.",
			func(s status) float64 { return float64(s.Failures) }),
		gauge("gateway_jwks_last_fetch_successful", "0 when the last fetch failed or none has ended, otherwise 1.",
			func(s status) float64 { return number(s.Fetches > 0 && s.LastError == "") }),
		gauge("gateway_jwks_last_success_timestamp_seconds", "When the key set was last confirmed, in Unix time; 0: never.",
			func(s status) float64 { return unix(s.LastSuccessAt) }),
	}}
}

// NewForwarding tells of forwarded requests what Requests does not.
func NewForwarding(uncounted func() int64) prometheus.Collector {
	return reported[int64]{uncounted, []value[int64]{
		counter("gateway_forward_uncounted_total", "Requests forwarded without being counted, although the policy limits them: the store could not count.",
			func(n int64) float64 { return float64(n) }),
	}}
}
