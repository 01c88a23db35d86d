package middleware

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
)

// HeaderRequestID names a request, from the client or made by the gateway. It
// is on every response and first in every audit line.
const HeaderRequestID = "X-Volcano-Request-Id"

// RequestID is the id of the request, put on the response the first time it is
// asked for. When the client's is malformed the error says so and the id is a
// new one: what the client sent is never echoed.
func RequestID(c *fiber.Ctx) (string, error) {
	if id := c.Response().Header.Peek(HeaderRequestID); len(id) > 0 {
		return string(id), nil
	}
	id, err := clientRequestID(c)
	if id == "" {
		id = uuid.NewString()
	}
	c.Set(HeaderRequestID, id)
	return id, err
}

func clientRequestID(c *fiber.Ctx) (string, error) {
	values := c.Request().Header.PeekAll(HeaderRequestID)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || !isUUID(values[0]) {
		return "", invalid("The " + HeaderRequestID + " header must be one UUID in its 36-character form, or absent.")
	}
	return string(values[0]), nil
}

// isUUID accepts the 36-character form only; uuid.ParseBytes knows others.
func isUUID(text []byte) bool {
	_, err := uuid.ParseBytes(text)
	return err == nil && len(text) == len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}
