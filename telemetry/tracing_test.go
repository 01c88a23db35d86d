package telemetry

import (
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
)

// environ sets the variables and no others that matter here.
func environ(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, name := range append(append([]string{disabledVar, exporterVar, propagatorsVar}, endpointVars...), protocolVars...) {
		t.Setenv(name, "")
	}
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "1")
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func TestWithoutAnExporterThereIsNoTracing(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"nothing set":            {},
		"other variables":        {"OTEL_SERVICE_NAME": "locks", "OTEL_TRACES_SAMPLER": "no such sampler"},
		"switched off":           {disabledVar: "true", endpointVars[1]: "http://127.0.0.1:1"},
		"exported by no one":     {exporterVar: "none", endpointVars[1]: "http://127.0.0.1:1"},
		"an endpoint of another": {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			environ(t, variables)
			if tracing, err := OpenTracing("1", "test"); tracing != nil || err != nil {
				t.Errorf("%v, %v", tracing, err)
			}
		})
	}
}

func TestTracingIsWantedByAnExporterOrAnEndpoint(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"an endpoint":            {endpointVars[1]: "http://127.0.0.1:1"},
		"an endpoint for traces": {endpointVars[0]: "https://127.0.0.1:1/v1/traces"},
		"the exporter":           {exporterVar: "otlp"},
		"by gRPC":                {endpointVars[1]: "http://127.0.0.1:1", protocolVars[1]: "grpc"},
		"by gRPC, for traces":    {endpointVars[1]: "localhost:4317", protocolVars[1]: "http/json", protocolVars[0]: "grpc"},
		"without traceparent":    {exporterVar: "otlp", propagatorsVar: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			environ(t, variables)
			tracing, err := OpenTracing("1", "test")
			if err != nil || tracing == nil {
				t.Fatalf("%v, %v", tracing, err)
			}
			if tracing.pass == (name == "without traceparent") {
				t.Errorf("passes traceparent: %v", tracing.pass)
			}
			if err := tracing.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatIsWrongWithTheVariablesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		says      []string
	}{
		"another exporter":   {map[string]string{exporterVar: "zipkin"}, []string{exporterVar, "zipkin", "otlp"}},
		"another protocol":   {map[string]string{protocolVars[1]: "http/xml"}, []string{protocolVars[1], "http/xml", "grpc"}},
		"no URL":             {map[string]string{endpointVars[1]: "localhost:4318"}, []string{endpointVars[1], "http://"}},
		"half a URL":         {map[string]string{endpointVars[0]: "http://"}, []string{endpointVars[0]}},
		"a broken URL":       {map[string]string{endpointVars[1]: "http://user:hidden@[::1"}, []string{endpointVars[1]}},
		"no URL for gRPC":    {map[string]string{endpointVars[1]: "127.0.0.1:4317", protocolVars[1]: "grpc"}, []string{endpointVars[1], "gRPC"}},
		"another sampler":    {map[string]string{"OTEL_TRACES_SAMPLER": "some"}, []string{"unsupported sampler", "some"}},
		"a ratio of all":     {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "100"}, []string{"ratio"}},
		"no number":          {map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "5s"}, []string{"OTEL_BSP_SCHEDULE_DELAY"}},
		"no time":            {map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, []string{"duration"}},
		"no certificate":     {map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"}, []string{"cert"}},
		"another propagator": {map[string]string{propagatorsVar: "tracecontext,b3"}, []string{propagatorsVar, "b3"}},
		"attributes":         {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "color"}, []string{"resource"}},
		"two things": {
			map[string]string{endpointVars[1]: "localhost", "OTEL_TRACES_SAMPLER": "some"},
			[]string{endpointVars[1], "unsupported sampler"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			environ(t, map[string]string{endpointVars[1]: "http://127.0.0.1:1"})
			for name, value := range c.variables {
				t.Setenv(name, value)
			}
			tracing, err := OpenTracing("1", "test")
			if err == nil || tracing != nil {
				t.Fatalf("%v, %v", tracing, err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("a secret is in %q", err)
			}
		})
	}
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTheUpstreamSeesOurSpanInTheClientsTrace(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		sent      string
		trace     string // that the upstream must see
		ours      bool   // and whether as our child
	}{
		"a trace goes on":      {map[string]string{exporterVar: "otlp"}, parent, parent[:35], true},
		"a trace begins":       {map[string]string{exporterVar: "otlp"}, "", "00-", true},
		"nonsense is replaced": {map[string]string{exporterVar: "otlp"}, "00-nonsense", "00-", true},
		"no propagation":       {map[string]string{exporterVar: "otlp", propagatorsVar: "none"}, parent, parent, false},
		"no tracing":           {nil, parent, parent, false},
	} {
		t.Run(name, func(t *testing.T) {
			environ(t, c.variables)
			tracing, err := OpenTracing("1", "test")
			if err != nil {
				t.Fatal(err)
			}
			request := &http.Request{Method: http.MethodGet, Header: http.Header{"traceparent": {c.sent}}} // not in canonical form
			ctx := t.Context()
			if tracing != nil {
				headers := propagation.MapCarrier{"traceparent": c.sent}
				ctx, _ = tracing.Request(headers, http.MethodGet)
			}
			tracing.Upstream(ctx, request)(&http.Response{StatusCode: http.StatusOK}, nil)
			var seen []string
			for name, values := range request.Header {
				if strings.EqualFold(name, "traceparent") {
					seen = append(seen, values...)
				}
			}
			if len(seen) != 1 || !strings.HasPrefix(seen[0], c.trace) || (seen[0] != c.sent) != c.ours {
				t.Errorf("the upstream sees %q of %q", seen, c.sent)
			}
		})
	}
}

func TestWithoutTracingNothingIsAllocated(t *testing.T) {
	var tracing *Tracing
	request := &http.Request{Method: http.MethodGet, Header: http.Header{"Traceparent": {parent}}}
	response := &http.Response{StatusCode: http.StatusOK}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { tracing.Upstream(ctx, request)(response, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
