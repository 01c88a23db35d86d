package httperr

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestAnErrorNeverQuotesAnAnswer(t *testing.T) {
	for _, answer := range []string{
		"the-secret\r\n\r\n", "HTTP/1.1 the-secret\r\n\r\n", "HTTP/1.1 200 OK\r\nthe-secret\r\n\r\n",
		"HTTP/1.1 200 OK\r\nSet-Cookie: the-secret\x01\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: the-secret\r\n\r\n",
	} {
		_, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
		if err == nil {
			t.Fatalf("%q is an answer", answer)
		}
		if got := WithoutAnswer(fmt.Errorf("context: %w", err)); strings.Contains(got.Error(), "the-secret") {
			t.Errorf("%q: %v", answer, got)
		}
	}
}

func TestOtherErrorsAreKept(t *testing.T) {
	known := errors.New("known")
	for _, err := range []error{io.EOF, fmt.Errorf("more: %w", io.ErrUnexpectedEOF), &net.OpError{Op: "dial", Err: errors.New("refused")}, fmt.Errorf("more: %w", known)} {
		if got := WithoutAnswer(err, known); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}
