package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/project-locks/gateway/lockcore/store"
)

// The stable codes of the protocol.
const (
	CodeInvalidRequest  = "invalid_request"
	CodeUnauthorized    = "unauthorized"
	CodeForbidden       = "forbidden"
	CodeNotFound        = "not_found"
	CodeMethod          = "method_not_allowed"
	CodeRequestTimeout  = "request_timeout"
	CodeLockHeld        = "lock_held"
	CodeOwnershipLost   = "lock_ownership_lost"
	CodePayloadTooLarge = "payload_too_large"
	CodeHeadersTooLarge = "headers_too_large"
	CodeRateLimited     = "lock_rate_limited"
	CodeInternal        = "internal"
	CodeUnavailable     = "lock_service_unavailable"
	CodeForwardLimited  = "rate_limited"      // forwarded requests
	CodeUncounted       = "quota_unavailable" // forwarded requests, where the policy refuses what cannot be counted
	CodeUpstream        = "upstream_unavailable"
	CodeUpstreamTimeout = "upstream_timeout"
)

// Problem is an error as a client is told it. Its JSON is the response body.
type Problem struct {
	Status int    `json:"-"`
	Text   string `json:"error"` // a sentence for a person, never a part of the request
	Code   string `json:"code"`

	AvailableAt string `json:"available_at,omitempty"` // lock_held: when takeover is possible
	Outcome     string `json:"outcome,omitempty"`      // lock_service_unavailable: not_applied or unknown

	RetryAfter int64  `json:"-"` // whole seconds; 0: no such header
	Allow      string `json:"-"` // method_not_allowed

	Cause error `json:"-"` // for the log
}

func (p *Problem) Error() string { return p.Text }

// Unwrap leads to what the client is not told.
func (p *Problem) Unwrap() error { return p.Cause }

func invalid(text string) *Problem {
	return &Problem{Status: fiber.StatusBadRequest, Code: CodeInvalidRequest, Text: text}
}

func unauthorized(text string) *Problem {
	return &Problem{Status: fiber.StatusUnauthorized, Code: CodeUnauthorized, Text: text}
}

func forbidden(text string) *Problem {
	return &Problem{Status: fiber.StatusForbidden, Code: CodeForbidden, Text: text}
}

func payloadTooLarge() *Problem {
	return &Problem{
		Status: fiber.StatusRequestEntityTooLarge, Code: CodePayloadTooLarge,
		Text: fmt.Sprintf("The request body is larger than %d bytes.", MaxBody),
	}
}

// unavailable is the answer when the store could not decide.
func unavailable(err error) *Problem {
	p := &Problem{Status: fiber.StatusServiceUnavailable, Code: CodeUnavailable, Cause: err}
	if errors.Is(err, store.ErrNotApplied) {
		p.Outcome = "not_applied"
		p.Text = "The lock service cannot decide now; the operation was not applied. Try again."
	} else {
		p.Outcome = "unknown"
		p.Text = "The lock service did not decide in time; the operation may have been applied. " +
			"Repeating it with the same lock token is safe."
	}
	return p
}

// upstreamUnavailable and upstreamTimeout are the answers to a forwarded
// request that got none from the upstream.
func upstreamUnavailable(text string, cause error) *Problem {
	return &Problem{Status: fiber.StatusBadGateway, Code: CodeUpstream, Text: text, Cause: cause}
}

func upstreamTimeout(text string, cause error) *Problem {
	return &Problem{Status: fiber.StatusGatewayTimeout, Code: CodeUpstreamTimeout, Text: text, Cause: cause}
}

// fromServer are the errors that Fiber and fasthttp report by status. Their
// own texts quote the request and are never used.
var fromServer = map[int]Problem{
	fiber.StatusBadRequest: {Code: CodeInvalidRequest, Text: "The request is not valid HTTP."},
	fiber.StatusNotFound: {Code: CodeNotFound,
		Text: "There is nothing at this path. Lock endpoints are /locks/{key} and /locks/{key}/lease, spelled exactly so."},
	fiber.StatusMethodNotAllowed:            {Code: CodeMethod, Text: "This path does not answer to this method."},
	fiber.StatusRequestTimeout:              {Code: CodeRequestTimeout, Text: "The request did not arrive in time."},
	fiber.StatusRequestEntityTooLarge:       *payloadTooLarge(),
	fiber.StatusRequestHeaderFieldsTooLarge: {Code: CodeHeadersTooLarge, Text: fmt.Sprintf("The request line and headers are larger than %d bytes.", MaxHeader)},
}

// problem finds what a client is told of an error.
func problem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if reported, ok := errors.AsType[*fiber.Error](err); ok {
		if p, ok := fromServer[reported.Code]; ok {
			p.Status = reported.Code
			return &p
		}
	}
	return &Problem{
		Status: fiber.StatusInternalServerError, Code: CodeInternal,
		Text: "The gateway failed to answer this request; its log says why under the request id.", Cause: err,
	}
}

// WriteError answers a request with an error and logs what an operator has to
// know. It is Fiber's ErrorHandler, so it answers malformed requests too.
func WriteError(c *fiber.Ctx, err error) error {
	p := problem(err)
	if c.Context().RequestBodyStream() != nil {
		setUnread(c.Context().Conn(), true) // perhaps: the client may still be sending
	}
	c.Context().SetUserValue(problemKey{}, p)
	id, _ := RequestID(c)
	if p.Cause != nil {
		slog.Log(c.Context(), logLevel(p.Cause), "request failed", "request_id", id, "code", p.Code, "error", p.Cause)
	}
	if p.Status == fiber.StatusUnauthorized {
		c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	}
	if p.RetryAfter > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(p.RetryAfter, 10))
	}
	if p.Allow != "" {
		c.Set(fiber.HeaderAllow, p.Allow)
	}
	return c.Status(p.Status).JSON(p)
}

// logLevel keeps an outage, which is logged when it begins and ends, from
// filling the log with every request meanwhile.
func logLevel(cause error) slog.Level {
	if errors.Is(cause, store.ErrDown) {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// NotFound ends the routes.
func NotFound(c *fiber.Ctx) error { return cmp.Or(unambiguous(c), error(fiber.ErrNotFound)) }

// Rescue turns a panic into an error, so that it is answered and logged like one.
func Rescue(next fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, strings.TrimSpace(string(debug.Stack())))
			}
		}()
		return next(c)
	}
}
