package middleware

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"
)

var (
	errFragment = errors.New("the request target has a fragment")
	errFolded   = errors.New("a header is folded over several lines")
)

// Ambiguous finds what fasthttp accepts and another server may read as
// something else: a "#" in the target, which some cut off, and a header line
// that continues the one before. RFC 9112 forbids clients to send either.
func Ambiguous(h *fasthttp.RequestHeader) error {
	if bytes.IndexByte(h.RequestURI(), '#') >= 0 {
		return errFragment
	}
	raw := h.RawHeaders()
	if bytes.Contains(raw, []byte("\n ")) || bytes.Contains(raw, []byte("\n\t")) {
		return errFolded
	}
	return nil
}
