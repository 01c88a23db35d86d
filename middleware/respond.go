package middleware

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// respond gives the upstream's response to the server. It reports whether the
// exchange goes on after that.
func (f *Forward) respond(c *fiber.Ctx, x *exchange) (goesOn bool, err error) {
	r := x.response
	if err := misleading(r); err != nil {
		return false, upstreamUnavailable("The upstream's answer is no good HTTP; the request may have been carried out.", err)
	}
	if x.upload != nil && !x.upload.complete.Load() {
		// Whatever of the body comes after the response is not the next request.
		c.Context().SetConnectionClose()
	}
	switch {
	case r.StatusCode == http.StatusSwitchingProtocols:
		return f.upgrade(c, x)
	case hasNoBody(r):
		length := r.Header.Get(fiber.HeaderContentLength) // of the body that is not there
		setHeaders(c, r)
		if length != "" {
			c.Set(fiber.HeaderContentLength, length)
		}
		return false, nil
	case r.ContentLength >= 0 && r.ContentLength <= smallBody:
		return f.respondSmall(c, x)
	}
	return f.respondStream(c, x, nil)
}

// misleading finds what net/http accepts and the client, or a proxy before it,
// may take for the end of the answer, so that it would read the rest as another.
func misleading(r *http.Response) error {
	if r.StatusCode < http.StatusOK && r.StatusCode != http.StatusSwitchingProtocols {
		return errors.New("the upstream answered with a status below 200")
	}
	for name := range r.Header {
		if !validName([]byte(name)) { // Content-Length with a space behind it is a length to some
			return errors.New("the upstream's answer has a header whose name HTTP does not allow")
		}
	}
	return nil
}

// hasNoBody tells of responses that have none whatever their headers say.
func hasNoBody(r *http.Response) bool {
	return r.Request.Method == http.MethodHead ||
		r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified
}

// respondSmall answers in one piece if the whole body is there, which it
// mostly is, and with a stream otherwise.
func (f *Forward) respondSmall(c *fiber.Ctx, x *exchange) (goesOn bool, err error) {
	body := make([]byte, x.response.ContentLength)
	n := 0
	if len(body) > 0 {
		n, err = x.response.Body.Read(body)
	}
	switch {
	case n == len(body):
		setHeaders(c, x.response)
		c.Response().SetBodyRaw(body)
		return false, nil
	case err != nil:
		return false, x.problem(err)
	}
	return f.respondStream(c, x, body[:n])
}

// respondStream lets the server send the body as it comes, after what has come
// already.
func (f *Forward) respondStream(c *fiber.Ctx, x *exchange, before []byte) (goesOn bool, err error) {
	setHeaders(c, x.response)
	length := x.response.ContentLength
	d := &download{x: x, before: before, client: c.Context(), stall: f.stall}
	if length < 0 && !c.Request().Header.IsHTTP11() {
		c.Context().SetConnectionClose()
		head := slices.Clone(c.Response().Header.Header())
		f.takeOver(x, false, func(client net.Conn) { d.untilClosed(client, head) })
		return true, nil
	}
	for name := range x.response.Trailer {
		if len(c.Response().Header.Peek(name)) == 0 { // which fasthttp would move to the end
			_ = c.Response().Header.AddTrailer(name) // one that may not be a trailer stays away
		}
	}
	if length >= 0 {
		d.direct = c.Context().Conn()
	}
	c.Response().ImmediateHeaderFlush = true
	c.Response().SetBodyStream(d, int(length))
	return true, d.renew()
}

// setHeaders copies status and headers of a response.
func setHeaders(c *fiber.Ctx, r *http.Response) {
	c.Status(r.StatusCode)
	if _, reason, _ := strings.Cut(r.Status, " "); reason != http.StatusText(r.StatusCode) && validValue([]byte(reason)) {
		c.Response().Header.SetStatusMessage([]byte(reason))
	}
	removeHopByHop(r.Header)
	for _, name := range []string{HeaderRequestID, HeaderRateLimit, HeaderRateRemaining, HeaderRateReset} {
		if len(c.Response().Header.Peek(name)) > 0 {
			r.Header.Del(name) // the gateway has said it
		}
	}
	for name, values := range r.Header {
		if name == fiber.HeaderContentEncoding { // the server has room for one
			values = []string{strings.Join(values, ", ")}
		}
		for _, value := range values {
			c.Response().Header.Add(name, value)
		}
	}
}
