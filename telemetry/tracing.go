package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const closeTimeout = 3 * time.Second

const serviceName = "project-locks-gateway" // unless OTEL_SERVICE_NAME says otherwise

// The variables that we judge ourselves; the SDK reads these and all others.
const (
	disabledVar    = "OTEL_SDK_DISABLED"
	exporterVar    = "OTEL_TRACES_EXPORTER"
	propagatorsVar = "OTEL_PROPAGATORS"
)

// For traces the first goes before the second.
var (
	endpointVars = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
	protocolVars = []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}
)

// Tracing makes spans and sends them. A nil *Tracing makes none; whoever has
// one costs nothing.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	pass     bool // traceparent, from the client and to the upstream
}

// OpenTracing makes what the OTEL_ variables of the environment ask for:
// nothing, nil, unless they name an exporter or an endpoint. Whatever they say
// wrong is an error, since the SDK would go on with something else.
func OpenTracing(version, instance string) (*Tracing, error) {
	wanted, err := wanted()
	if !wanted || err != nil {
		return nil, err
	}
	var wrong complaints
	wrong.check()
	otel.SetErrorHandler(&wrong)
	otel.SetLogger(logr.New(&wrong))
	t, err := newTracing(context.Background(), version, instance)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("traces are not sent", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	if err := errors.Join(append(wrong.list, err)...); err != nil {
		return nil, errors.Join(err, t.Close(context.Background()))
	}
	return t, nil
}

func wanted() (bool, error) {
	if strings.EqualFold(os.Getenv(disabledVar), "true") {
		return false, nil
	}
	switch exporter := os.Getenv(exporterVar); exporter {
	case "":
		return first(endpointVars) != "", nil
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %q is not a choice; write otlp or none", exporterVar, exporter)
	}
}

// first is the value of the first of these variables that has one.
func first(names []string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}

func newTracing(ctx context.Context, version, instance string) (*Tracing, error) {
	var exporter *otlptrace.Exporter
	var err error
	if first(protocolVars) == "grpc" {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", serviceName),
			attribute.String("service.version", version),
			attribute.String("service.instance.id", instance),
		),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // last: it goes before ours
	)
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracing{
		provider: provider,
		tracer:   provider.Tracer("github.com/project-locks/gateway"),
		pass:     slices.Contains(propagators(), "tracecontext"),
	}, err
}

func propagators() []string {
	list := os.Getenv(propagatorsVar)
	if list == "" {
		return []string{"tracecontext", "baggage"}
	}
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// Close sends what has not been sent yet, until ctx ends. A collector that is
// not there does not hold up a shutdown for all of its time.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// complaints collects what is wrong with the variables. It listens to the SDK
// too, which only logs what it cannot use.
type complaints struct {
	mu   sync.Mutex
	list []error
}

var (
	_ logr.LogSink      = (*complaints)(nil)
	_ otel.ErrorHandler = (*complaints)(nil)
)

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Errorf(format, args...))
}

// check judges what the SDK would take as it is.
func (c *complaints) check() {
	protocol := first(protocolVars)
	if !slices.Contains([]string{"", "http/protobuf", "http/json", "grpc"}, protocol) {
		c.add("%s: %q is not a choice; write http/protobuf, http/json or grpc", protocolVars[1], protocol)
	}
	for _, name := range endpointVars {
		if endpoint := os.Getenv(name); endpoint != "" && !isEndpoint(endpoint, protocol) { // it may hold a password, and is not shown
			c.add("%s: not a URL; write for example http://localhost:4318, or with gRPC http://localhost:4317", name)
		}
	}
	for _, name := range propagators() {
		if !slices.Contains([]string{"tracecontext", "baggage", "none"}, name) {
			c.add("%s: %q is not a choice; write tracecontext, baggage (which is passed on in any case) or none", propagatorsVar, name)
		}
	}
}

// isEndpoint leaves to gRPC what it can make of a URL.
func isEndpoint(endpoint, protocol string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (protocol == "grpc" || u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"))
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) { c.add("the OTEL_ variables: %w", err) }

// Init implements logr.LogSink.
func (c *complaints) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (c *complaints) Enabled(int) bool { return true }

// Error implements logr.LogSink.
func (c *complaints) Error(err error, message string, _ ...any) {
	if message != "parse url" { // which check has told without quoting it
		c.add("the OTEL_ variables: %s: %w", message, err) // without the values, which may be secret
	}
}

// Info implements logr.LogSink. The SDK finds a number that it cannot read
// worth no more than this.
func (c *complaints) Info(_ int, message string, about ...any) {
	if strings.HasPrefix(message, "Got invalid value") && len(about) > 0 {
		c.add("%v: not a number", about[0])
	}
}

// WithValues implements logr.LogSink.
func (c *complaints) WithValues(...any) logr.LogSink { return c }

// WithName implements logr.LogSink.
func (c *complaints) WithName(string) logr.LogSink { return c }
