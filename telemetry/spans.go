package telemetry

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
)

var traceContext propagation.TraceContext

// Request begins the span of a request, as a part of the trace that its headers
// name. The context leads to the span.
func (t *Tracing) Request(headers propagation.TextMapCarrier, method string) (context.Context, trace.Span) {
	ctx := context.Background()
	if t.pass {
		ctx = traceContext.Extract(ctx, headers)
	}
	return t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", method)))
}

// EndRequest ends the span of a request with its answer.
func EndRequest(span trace.Span, requestID string, a Answer) {
	if a.Operation != None {
		span.SetName(a.Operation)
	}
	span.SetAttributes(
		attribute.String("gateway.request_id", requestID),
		attribute.String("gateway.operation", a.Operation),
		attribute.Int("http.response.status_code", a.Status),
	)
	if a.Code != None {
		span.SetAttributes(attribute.String("gateway.code", a.Code))
	}
	if a.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, a.Code)
	}
	span.End()
}

// decision is the span of one decision of the store, within the request's.
func (t *Tracing) decision(ctx context.Context, op lockcore.Op) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, "store decision", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("gateway.operation", op.String())))
}

func endDecision(span trace.Span, d store.Decision, err error) {
	if err != nil {
		span.SetStatus(codes.Error, outcome(err))
	} else {
		span.SetAttributes(
			attribute.Bool("gateway.admitted", d.Quota.Admitted),
			attribute.String("gateway.verdict", d.Outcome.Verdict.String()),
		)
	}
	span.End()
}

// Upstream begins the span of a request that is about to be sent to the
// upstream, within the span of the request that ctx leads to, and has it carry
// our traceparent in place of the client's. Call end when the response has
// begun, or failed to.
func (t *Tracing) Upstream(ctx context.Context, request *http.Request) (end func(*http.Response, error)) {
	if t == nil {
		return func(*http.Response, error) {}
	}
	ctx, span := t.tracer.Start(ctx, "upstream", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", request.Method)))
	if t.pass {
		maps.DeleteFunc(request.Header, func(name string, _ []string) bool {
			return strings.EqualFold(name, "Traceparent") || strings.EqualFold(name, "Tracestate")
		})
		traceContext.Inject(ctx, propagation.HeaderCarrier(request.Header))
	}
	return func(response *http.Response, err error) {
		if err != nil {
			span.SetStatus(codes.Error, "no response")
		} else {
			span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
		}
		span.End()
	}
}
