package middleware

import (
	"bytes"
	"fmt"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

var (
	errVersion  = invalid("The HTTP version must be 1.1 or 1.0.")
	errTarget   = invalid("The request target must be a path, without scheme and host.")
	errFragment = invalid("The request target must not have a fragment.")
	errLine     = invalid("A header is folded over several lines, or its line does not end with CR LF.")
	errName     = invalid("The name of a header has a space in it.")
	errFraming  = invalid("It is not clear where the body ends: send Content-Length, or Transfer-Encoding: chunked, but not both.")
)

// maxHeaderLines is how many there may be: each costs many times its bytes.
const maxHeaderLines = 256

var errManyLines = &Problem{
	Status: fiber.StatusRequestHeaderFieldsTooLarge, Code: CodeHeadersTooLarge,
	Text: fmt.Sprintf("The request has more than %d headers.", maxHeaderLines),
}

// unambiguous is the first check of every request. Behind one that fails it
// another server may see more requests.
func unambiguous(c *fiber.Ctx) error {
	err := Ambiguous(&c.Request().Header)
	if err != nil {
		c.Context().SetConnectionClose()
	}
	return err
}

// Ambiguous finds what fasthttp accepts and another server may read as
// something else. RFC 9112 forbids clients to send any of it to this server,
// which is no proxy. More headers than anybody needs are no better.
func Ambiguous(h *fasthttp.RequestHeader) error {
	target := h.RequestURI()
	switch {
	case !h.IsHTTP11() && string(h.Protocol()) != "HTTP/1.0":
		return errVersion
	case target[0] != '/', len(h.Host()) == 0 && bytes.HasPrefix(target, []byte("//")): // then the host is taken from it
		return errTarget
	case bytes.IndexByte(target, '#') >= 0: // where some cut it off
		return errFragment
	}
	return ambiguousLines(h)
}

// ambiguousLines reads the headers as they were sent: fasthttp has joined
// folded lines and forgotten lengths and encodings that it did not use.
func ambiguousLines(h *fasthttp.RequestHeader) error {
	length, encoding, lines := false, false, 0
	for line := range bytes.Lines(h.RawHeaders()) {
		if lines++; lines > maxHeaderLines && len(line) > len("\r\n") {
			return errManyLines
		}
		if line[0] == ' ' || line[0] == '\t' || !bytes.HasSuffix(line, []byte("\r\n")) {
			return errLine
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		if bytes.IndexByte(name, ' ') >= 0 {
			return errName
		}
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		encoding = encoding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	chunked := len(h.Peek("Transfer-Encoding")) > 0
	if encoding && (length || !chunked) {
		return errFraming
	}
	return nil
}
