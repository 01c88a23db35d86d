package e2e

import (
	"fmt"
	"slices"
	"time"
)

// spread is how long something took, of many times.
type spread struct {
	n             int
	p50, p99, max time.Duration
}

func (s spread) String() string {
	return fmt.Sprintf("%d answers, p50 %v, p99 %v, max %v", s.n, s.p50, s.p99, s.max)
}

func percentiles(took []time.Duration) spread {
	if len(took) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(took))
	at := func(part float64) time.Duration { return sorted[int(part*float64(len(sorted)-1))] }
	return spread{len(sorted), at(0.5), at(0.99), at(1)}
}
