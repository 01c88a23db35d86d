package middleware

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/telemetry"
)

// Under these keys a request carries what is to be told of it.
type (
	operationKey struct{} // string
	problemKey   struct{} // *Problem
)

// As names the operation that a handler serves.
func As(operation string, next fiber.Handler) fiber.Handler {
	var name any = operation // made once, not for each request
	return func(c *fiber.Ctx) error {
		c.Context().SetUserValue(operationKey{}, name)
		return next(c)
	}
}

// Observer measures all requests. It stands before everything that answers
// them.
type Observer struct {
	Requests *telemetry.Requests
}

// Handler observes what next answers.
func (o Observer) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		next(c)
		o.Requests.Count(answerOf(c), time.Since(c.Time()))
	}
}

// Unread observes the answers to what could not be read as a request.
func (o Observer) Unread(next func(*fasthttp.RequestCtx, error)) func(*fasthttp.RequestCtx, error) {
	return func(c *fasthttp.RequestCtx, err error) {
		next(c, err)
		o.Requests.CountUnread(answerOf(c))
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
