package middleware

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestWhatServersReadInDifferentWaysIsAmbiguous(t *testing.T) {
	const ordinary = "Host: a\r\nX-One: b\r\n"
	for _, c := range []struct {
		line, headers string
		want          error
	}{
		{"GET / HTTP/1.1", ordinary, nil},
		{"GET / HTTP/1.0", "", nil},
		{"GET /a?b=//c HTTP/1.1", ordinary, nil},
		{"GET //a/b HTTP/1.1", ordinary, nil},
		{"POST / HTTP/1.1", ordinary + "Content-Length: 5\r\n", nil},
		{"POST / HTTP/1.1", ordinary + "Transfer-Encoding: chunked\r\n", nil},
		{"POST / HTTP/1.1", ordinary + "transfer-encoding: CHUNKED\r\n", nil},
		{"GET / HTTP/0.9", ordinary, errVersion},
		{"GET / HTTP/1.2", ordinary, errVersion},
		{"GET / HTTP/2.0", ordinary, errVersion},
		{"GET / HTTP/3.0", ordinary, errVersion},
		{"GET http://a/b HTTP/1.1", ordinary, errTarget},
		{"GET ftp://a/b HTTP/1.1", ordinary, errTarget},
		{"OPTIONS * HTTP/1.1", ordinary, errTarget},
		{"CONNECT a:80 HTTP/1.1", ordinary, errTarget},
		{"GET //a/b HTTP/1.0", "X: y\r\n", errTarget},
		{"GET /a#b HTTP/1.1", ordinary, errFragment},
		{"GET / HTTP/1.1", ordinary + " c\r\n", errLine},
		{"GET / HTTP/1.1", ordinary + "\tc\r\n", errLine},
		{"GET / HTTP/1.1", ordinary + "X: y\nZ: z\r\n", errLine},
		{"GET / HTTP/1.1", ordinary + "X Y: z\r\n", errName},
		{"GET / HTTP/1.1", ordinary + strings.Repeat("a:\r\n", maxHeaderLines-2), nil},
		{"GET / HTTP/1.1", ordinary + strings.Repeat("a:\r\n", maxHeaderLines-1), errManyLines},
		{"POST / HTTP/1.1", ordinary + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", errFraming},
		{"POST / HTTP/1.1", ordinary + "TRANSFER-ENCODING: chunked\r\ncontent-length: 5\r\n", errFraming},
		{"POST / HTTP/1.1", ordinary + "Content-Length: 5\r\nTransfer-Encoding: identity\r\n", errFraming},
		{"POST / HTTP/1.1", ordinary + "Transfer-Encoding: identity\r\n", errFraming},
	} {
		var h fasthttp.RequestHeader
		if err := h.Read(bufio.NewReader(strings.NewReader(c.line + "\r\n" + c.headers + "\r\n"))); err != nil {
			t.Errorf("%s %q: fasthttp refuses it now by itself: %v", c.line, c.headers, err)
			continue
		}
		if got := Ambiguous(&h); !errors.Is(got, c.want) {
			t.Errorf("%s %q: %v, want %v", c.line, c.headers, got, c.want)
		}
	}
}

func TestLookingForAmbiguitiesAllocatesNothing(t *testing.T) {
	var h fasthttp.RequestHeader
	text := "POST /locks/key/lease HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nContent-Length: 5\r\n\r\n"
	if err := h.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = Ambiguous(&h) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
