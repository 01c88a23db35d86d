package telemetry

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// None stands in a label for a request that reached no operation, and for an
// answer that is no error of the gateway.
const None = "none"

// Forward is the operation of the requests that go to the upstream.
const Forward = "forward"

// Answer says of a request what it was and what became of it.
type Answer struct {
	Operation string // a word of lockcore.Op, Forward or None
	Status    int
	Code      string // of the error, in the words of the protocol; or None
}

// Requests counts answers, and measures how long they took.
type Requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu     sync.RWMutex
	series map[Answer]requestSeries // spares looking up labels for each request
}

type requestSeries struct {
	total    prometheus.Counter
	duration prometheus.Observer
}

var _ prometheus.Collector = (*Requests)(nil)

// NewRequests begins at zero with the answers that are expected, so that the
// first of each shows as an increase.
func NewRequests(expected ...Answer) *Requests {
	r := &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_total",
			Help: "Requests answered on the public listener, by operation, status and error code.",
		}, []string{"operation", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_request_duration_seconds",
			Help:    "From the headers of a request to its answer; of a forwarded one, to the beginning of its answer.",
			Buckets: durations,
		}, []string{"operation"}),
		series: map[Answer]requestSeries{},
	}
	for _, a := range expected {
		r.of(a)
	}
	return r
}

// Count notes a request that took some time to answer.
func (r *Requests) Count(a Answer, took time.Duration) {
	s := r.of(a)
	s.total.Inc()
	s.duration.Observe(took.Seconds())
}

// CountUnread notes a request that was refused before it could be read.
func (r *Requests) CountUnread(a Answer) { r.of(a).total.Inc() }

// of finds the series of an answer. There are few: operations and codes are
// ours, and a status has three digits.
func (r *Requests) of(a Answer) requestSeries {
	r.mu.RLock()
	s, known := r.series[a]
	r.mu.RUnlock()
	if known {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s = requestSeries{
		total:    r.total.WithLabelValues(a.Operation, strconv.Itoa(a.Status), a.Code),
		duration: r.duration.WithLabelValues(a.Operation),
	}
	r.series[a] = s
	return s
}

// Describe implements prometheus.Collector.
func (r *Requests) Describe(ch chan<- *prometheus.Desc) {
	r.total.Describe(ch)
	r.duration.Describe(ch)
}

// Collect implements prometheus.Collector.
func (r *Requests) Collect(ch chan<- prometheus.Metric) {
	r.total.Collect(ch)
	r.duration.Collect(ch)
}
