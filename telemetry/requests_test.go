package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestAnswersAreCountedByOperationStatusAndCode(t *testing.T) {
	r := NewRequests(Answer{"acquire", 503, "lock_service_unavailable"})
	r.Count(Answer{"acquire", 201, None}, 3*time.Millisecond)
	r.Count(Answer{"acquire", 201, None}, 4*time.Millisecond)
	r.Count(Answer{"read", 200, None}, time.Minute)
	r.CountUnread(Answer{None, 400, "invalid_request"})
	want(t, r, `
		# HELP gateway_requests_total Requests answered on the public listener, by operation, status and error code.
		# TYPE gateway_requests_total counter
		gateway_requests_total{code="none",operation="acquire",status="201"} 2
		gateway_requests_total{code="lock_service_unavailable",operation="acquire",status="503"} 0
		gateway_requests_total{code="none",operation="read",status="200"} 1
		gateway_requests_total{code="invalid_request",operation="none",status="400"} 1
	`, "gateway_requests_total")
	for operation, count := range map[string]uint64{"acquire": 2, "read": 1, None: 0} {
		if got := observations(t, r.duration.WithLabelValues(operation)); got != count {
			t.Errorf("%d times of %s, want %d", got, operation, count)
		}
	}
}

func TestCountingARequestAllocatesNothing(t *testing.T) {
	r := NewRequests()
	status := 200
	if n := testing.AllocsPerRun(1000, func() { r.Count(Answer{"acquire", status, None}, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequests(b *testing.B) {
	r := NewRequests()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Count(Answer{"acquire", 201, None}, time.Millisecond)
		}
	})
}

func TestNamesAndTextsFollowTheConventions(t *testing.T) {
	registry := everything(t)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "gateway_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
