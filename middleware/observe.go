package middleware

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/project-locks/gateway/telemetry"
)

// Under these keys a request carries what is to be told of it.
type (
	operationKey struct{} // string
	problemKey   struct{} // *Problem
	contextKey   struct{} // context.Context, which leads to the span
)

// As names the operation that a handler serves.
func As(operation string, next fiber.Handler) fiber.Handler {
	var name any = operation // made once, not for each request
	return func(c *fiber.Ctx) error {
		c.Context().SetUserValue(operationKey{}, name)
		return next(c)
	}
}

// Observer measures and traces all requests. It stands before everything that
// answers them.
type Observer struct {
	Requests *telemetry.Requests
	Tracing  *telemetry.Tracing // nil: no traces
}

// Handler observes what next answers.
func (o Observer) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		span := o.begin(c)
		next(c)
		answer := answerOf(c)
		o.Requests.Count(answer, time.Since(c.Time()))
		if span != nil {
			telemetry.EndRequest(span, string(c.Response.Header.Peek(HeaderRequestID)), answer)
		}
	}
}

const (
	usualHeader = 4 << 10 // bytes of headers, and of a request target
	usualLines  = 64
)

// Lean gives back the memory of an unusually large request, which the server
// would keep for the next one on its connection. It stands before everything.
func Lean(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		next(c)
		forget(c)
	}
}

func forget(c *fasthttp.RequestCtx) {
	header := &c.Request.Header
	if raw := header.RawHeaders(); len(raw) > usualHeader || len(header.RequestURI()) > usualHeader || bytes.Count(raw, []byte("\n")) > usualLines {
		*header, *c.URI() = fasthttp.RequestHeader{}, fasthttp.URI{}
	}
}

// begin begins the span of a request; nil without traces.
func (o Observer) begin(c *fasthttp.RequestCtx) trace.Span {
	if o.Tracing == nil {
		return nil
	}
	method := string(c.Method())
	if !slices.Contains(fiber.DefaultMethods, method) {
		method = "_OTHER"
	}
	ctx, span := o.Tracing.Request(traceHeaders{&c.Request.Header}, method)
	c.SetUserValue(contextKey{}, ctx)
	return span
}

// spanContext leads what is done for a request to the request's span. It never
// ends.
func spanContext(c *fasthttp.RequestCtx) context.Context {
	if ctx, ok := c.UserValue(contextKey{}).(context.Context); ok {
		return ctx
	}
	return context.Background()
}

// describe tells the span of a request who sent it.
func describe(c *fasthttp.RequestCtx, r *Record) {
	if span := trace.SpanFromContext(spanContext(c)); span.IsRecording() {
		span.SetAttributes(attribute.String("gateway.project_id", r.ProjectID), attribute.String("gateway.key_id", r.KeyID))
	}
}

// traceHeaders has the traceparent of a request read.
type traceHeaders struct{ *fasthttp.RequestHeader }

// Get implements propagation.TextMapCarrier. Of headers that are there twice
// nobody can tell which one counts.
func (h traceHeaders) Get(name string) string {
	if values := h.PeekAll(name); len(values) == 1 {
		return string(values[0])
	}
	return ""
}

// Keys implements propagation.TextMapCarrier.
func (h traceHeaders) Keys() (names []string) {
	for _, name := range h.PeekKeys() {
		names = append(names, string(name))
	}
	return names
}

// Unread observes the answers to what could not be read as a request.
func (o Observer) Unread(next func(*fasthttp.RequestCtx, error)) func(*fasthttp.RequestCtx, error) {
	return func(c *fasthttp.RequestCtx, err error) {
		next(c, err)
		o.Requests.CountUnread(answerOf(c))
		forget(c)
	}
}

func answerOf(c *fasthttp.RequestCtx) telemetry.Answer {
	a := telemetry.Answer{Operation: telemetry.None, Status: c.Response.StatusCode(), Code: telemetry.None}
	if operation, ok := c.UserValue(operationKey{}).(string); ok {
		a.Operation = operation
	}
	if p, ok := c.UserValue(problemKey{}).(*Problem); ok {
		a.Code = p.Code
	}
	return a
}
