package middleware

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNoRequestGoesOutBeforeEverythingBeforeItWasRead(t *testing.T) {
	for name, c := range map[string]struct {
		reads int // bytes that net/http has room for; 0: it does not read
		goes  bool
	}{
		"the buffer is empty":         {upstreamBuffer, true},
		"something is in the buffer":  {upstreamBuffer - 1, false},
		"the buffer is full, or used": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close() //nolint:errcheck // over
			u := newUpstreamConn(near, near)
			var sides sync.WaitGroup
			if c.reads > 0 {
				sides.Go(func() { _, _ = u.Read(make([]byte, c.reads)) })
			}
			got := make(chan bool)
			go func() {
				_, err := io.ReadFull(far, make([]byte, len("request")))
				got <- err == nil
			}()
			new(attempt).gotConn(httptrace.GotConnInfo{Conn: u})
			sides.Go(func() {
				if _, err := io.WriteString(u, "request"); (err == nil) != c.goes {
					t.Errorf("writing: %v", err)
				}
			})
			if !c.goes {
				time.Sleep(20 * time.Millisecond) // in which it would have gone
				_ = u.Close()
			}
			if <-got != c.goes || (u.writes.Load() > 0) != c.goes {
				t.Errorf("it goes: %v, want %v", !c.goes, c.goes)
			}
			_ = u.Close()
			sides.Wait()
		})
	}
}

// A body that should not be there looks like an answer.
func TestWhatIsLeftOfAnAnswerIsNobodysAnswer(t *testing.T) {
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
	upstream := rawUpstream(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			switch path := request.URL.Path; request.Method {
			case http.MethodHead:
				_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(poison), poison)
			case http.MethodDelete:
				_, err = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n"+poison)
			default:
				_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
			}
			if err != nil {
				return
			}
		}
	})
	f := newFront(t, upstream, nil)
	var clients sync.WaitGroup
	for client := range 24 {
		method := []string{http.MethodGet, http.MethodHead, http.MethodGet, http.MethodDelete}[client%4]
		clients.Go(func() {
			conn := f.dial()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil { // for all of them
				t.Error(err)
			}
			for r, n := bufio.NewReader(conn), 0; n < 100; n++ {
				path := fmt.Sprintf("/%d/%d", client, n)
				if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\n\r\n", method, path); err != nil {
					t.Error(err)
					return
				}
				response, err := http.ReadResponse(r, &http.Request{Method: method})
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				ours := response.StatusCode == http.StatusBadGateway && strings.Contains(string(body), "was not sent")
				if err != nil || method == http.MethodGet && string(body) != path && !ours {
					t.Errorf("%s: status %d, %q, %v", path, response.StatusCode, body, err)
				}
			}
		})
	}
	clients.Wait()
}
