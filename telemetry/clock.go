package telemetry

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clockPeriod is how long a comparison of clocks stands against worse ones.
const clockPeriod = 10 * time.Second

// clock compares the store's clock with ours. A decision was made somewhere
// between request and answer; the middle is off by half of that time at most,
// so of each period the quickest answer counts.
type clock struct {
	difference prometheus.Gauge
	best       atomic.Pointer[comparison]
}

type comparison struct {
	sent time.Time
	took time.Duration
}

func newClock() *clock {
	c := &clock{difference: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gateway_store_clock_difference_seconds",
		Help: "How far the store's clock is ahead of the gateway's; below 0 it is behind, NaN before the first decision.",
	})}
	c.difference.Set(math.NaN())
	return c
}

// compare takes the moment of a decision on the store's clock. Of calls at the
// same time either may win: both are recent.
func (c *clock) compare(sent time.Time, took time.Duration, at time.Time) {
	best := c.best.Load()
	if best != nil && took > best.took && sent.Sub(best.sent) < clockPeriod {
		return
	}
	c.best.Store(&comparison{sent, took})
	c.difference.Set(at.Sub(sent.Add(took / 2)).Seconds())
}
