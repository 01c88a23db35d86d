package telemetry

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry makes a registry with the metrics of the process and of Go.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// NewBuild tells which program this is.
func NewBuild(version, revision, goVersion string) prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "gateway_build_info",
		Help:        "1; its labels tell which program this is.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": goVersion},
	})
	build.Set(1)
	return build
}

// Handler answers Prometheus. A metric that cannot be collected is logged and
// does not hide the others.
func Handler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      scrapeLog{},
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      registry,
	})
}

type scrapeLog struct{}

func (scrapeLog) Println(v ...any) { slog.Error("collecting metrics", "error", fmt.Sprint(v...)) }

// durations are the buckets of every histogram of times, in seconds: from what
// a store in memory takes to more than any time-out.
var durations = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
