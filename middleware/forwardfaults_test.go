package middleware

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/project-locks/gateway/configs"
)

// upstreamThatBreaks answers the first request on each connection well, and
// closes the connection after it has read the second. arrived counts those.
func upstreamThatBreaks(t testing.TB) (upstream string, arrived *atomic.Int64) {
	arrived = new(atomic.Int64)
	return rawUpstream(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if readHead(r) == "" {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		head := readHead(r)
		if head == "" {
			return
		}
		if length := parseLines(head)["content-length"]; len(length) > 0 && length[0] != "0" {
			_, _ = io.ReadFull(r, make([]byte, 3))
		}
		arrived.Add(1)
	}), arrived
}

func TestARequestArrivesOnceWhenItsConnectionBreaks(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "DELETE", "POST", "PUT", "PATCH", "PROPFIND"} {
		for _, rest := range []string{
			"\r\n", "Content-Length: 3\r\n\r\nabc", "Content-Length: 0\r\n\r\n",
			"Idempotency-Key: k\r\n\r\n", "X-Idempotency-Key: k\r\nContent-Length: 0\r\n\r\n", "idempotency-key: k\r\nContent-Length: 3\r\n\r\nabc",
		} {
			upstream, arrived := upstreamThatBreaks(t)
			f := newFront(t, upstream, nil)
			if response := f.get("/"); response.StatusCode != http.StatusOK { // so that there is a kept connection
				t.Fatalf("the first: status %d", response.StatusCode)
			}
			response := f.raw(method + " /a HTTP/1.1\r\nHost: x\r\n" + rest)
			if response.StatusCode != http.StatusBadGateway || method != "HEAD" && response.problem().Code != CodeUpstream {
				t.Errorf("%s %q: status %d, %s", method, rest, response.StatusCode, response.body)
			}
			if n := arrived.Load(); n != 1 {
				t.Errorf("%s %q arrived %d times", method, rest, n)
			}
		}
	}
}

func TestARequestArrivesOnceWhenAFreshConnectionBreaks(t *testing.T) {
	var arrived atomic.Int64
	f := newFront(t, rawUpstream(t, func(c net.Conn) {
		if readHead(bufio.NewReader(c)) != "" {
			arrived.Add(1)
		}
	}), nil)
	for n, method := range []string{"GET", "DELETE", "POST"} {
		response := f.raw(method + " /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		if response.StatusCode != http.StatusBadGateway || arrived.Load() != int64(n+1) {
			t.Errorf("%s: status %d, arrived %d times", method, response.StatusCode, arrived.Load()-int64(n))
		}
	}
}

// An upstream that closes every connection unannounced races with the requests
// that are sent meanwhile. Most of those are proved not to have been sent.
func TestUnsentRequestsAreSentAgainAndOthersAreNot(t *testing.T) {
	var mu sync.Mutex
	arrived := map[string]int{}
	f := newFront(t, rawUpstream(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		head := readHead(r)
		if length := parseLines(head)["content-length"]; len(length) > 0 && length[0] == "3" {
			_, _ = io.ReadFull(r, make([]byte, 3))
		}
		mu.Lock()
		arrived[strings.Fields(head + " - -")[1]]++
		mu.Unlock()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}), nil)
	const clients, requests = 4, 300
	var all sync.WaitGroup
	var failed atomic.Int64
	for n := range clients {
		client := f.dial()
		all.Go(func() {
			defer client.Close() //nolint:errcheck // over
			r := bufio.NewReader(client)
			for m := range requests {
				_, _ = fmt.Fprintf(client, []string{
					"GET /%d/%d HTTP/1.1\r\nHost: x\r\n\r\n", "DELETE /%d/%d HTTP/1.1\r\nHost: x\r\n\r\n", "POST /%d/%d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
				}[m%3], n, m)
				if f.read(r, "POST").StatusCode != http.StatusOK {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	for path, times := range arrived {
		if times > 1 {
			t.Errorf("%s arrived %d times", path, times)
		}
	}
	if n := failed.Load(); n > clients*requests/5 {
		t.Errorf("%d of %d failed", n, clients*requests)
	}
	t.Logf("%d of %d failed", failed.Load(), clients*requests)
}

func TestNoAnswerIsTold(t *testing.T) {
	closed := rawUpstream(t, func(net.Conn) {})
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = down.Close()
	silent := rawUpstream(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	says := func(text string) string {
		return rawUpstream(t, func(c net.Conn) {
			readHead(bufio.NewReader(c))
			_, _ = io.WriteString(c, text)
		})
	}
	for name, c := range map[string]struct {
		upstream string
		status   int
		code     string
		text     string
	}{
		"nobody listens":          {"http://" + down.Addr().String(), 502, CodeUpstream, "was not sent"},
		"closed at once":          {closed, 502, CodeUpstream, "The upstream"}, // before or after the request was sent
		"silent":                  {silent, 504, CodeUpstreamTimeout, "may have been carried out"},
		"not HTTP":                {says("SSH-2.0-OpenSSH\r\n"), 502, CodeUpstream, "may have been carried out"},
		"broken headers":          {says("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), 502, CodeUpstream, "may have been carried out"},
		"broken off":              {says("HTTP/1.1 200 OK\r\nContent-Le"), 502, CodeUpstream, "may have been carried out"},
		"a short body":            {says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), 502, CodeUpstream, "may have been carried out"},
		"a protocol unasked":      {says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 502, CodeUpstream, "nobody asked for"},
		"a status below 100":      {says("HTTP/1.1 099 X\r\nContent-Length: 3\r\n\r\nabc"), 502, CodeUpstream, "no good HTTP"},
		"no status":               {says("HTTP/1.1 000 X\r\nContent-Length: 3\r\n\r\nabc"), 502, CodeUpstream, "no good HTTP"},
		"a signed status":         {says("HTTP/1.1 +20 X\r\nContent-Length: 3\r\n\r\nabc"), 502, CodeUpstream, "The upstream"},
		"a space behind a name":   {says("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding : chunked\r\n\r\nabc"), 502, CodeUpstream, "no good HTTP"},
		"a space in a name":       {says("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX A: chunked\r\n\r\nabc"), 502, CodeUpstream, "no good HTTP"},
		"endless headers":         {says("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 1100) + "\r\n"), 502, CodeUpstream, "may have been carried out"},
		"TLS where there is none": {strings.Replace(silent, "http:", "https:", 1), 504, CodeUpstreamTimeout, "may have been carried out"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, c.upstream, func(s *configs.Settings) { s.UpstreamTimeout = 300 * time.Millisecond })
			response := f.get("/secret-path?q=secret-query", "X-Secret: secret-header")
			if response.StatusCode != c.status || response.problem().Code != c.code || response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, %s, %v", response.StatusCode, response.body, response.Header)
			}
			if !strings.Contains(response.problem().Text, c.text) || strings.Contains(response.body, "secret") || len(response.Header.Values(HeaderRequestID)) != 1 {
				t.Errorf("body %s, headers %v", response.body, response.Header)
			}
		})
	}
}

func TestMoreThanTheLimitWaitForTheirTurn(t *testing.T) {
	let := make(chan struct{})
	var arrived atomic.Int64
	upstream := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived.Add(1)
		flush(w)
		<-let
	})
	f := newFront(t, upstream, func(s *configs.Settings) { s.UpstreamMaxConns, s.UpstreamTimeout = 1, 500*time.Millisecond })
	replies := make(chan reply, 2)
	client := f.dial()   // has a response whose body does not end
	defer client.Close() //nolint:errcheck // over
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	readHead(bufio.NewReader(client))

	began := time.Now()
	go func() { replies <- f.get("/") }()
	response := next(t, replies, "the second answer")
	if response.StatusCode != 504 || !strings.Contains(response.body, "busy") || time.Since(began) < 400*time.Millisecond || arrived.Load() != 1 {
		t.Errorf("the second: status %d, %s after %v", response.StatusCode, response.body, time.Since(began))
	}
	go func() { replies <- f.get("/") }()
	time.Sleep(50 * time.Millisecond)
	close(let)
	if response := next(t, replies, "the third answer"); response.StatusCode != 200 || arrived.Load() != 2 {
		t.Errorf("the third: status %d, %s", response.StatusCode, response.body)
	}
}

func TestAClientThatLeavesEndsTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		handle  func(http.ResponseWriter, *http.Request) // until the client leaves
	}{
		"while the upstream is silent": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", func(http.ResponseWriter, *http.Request) {}},
		"after its body":               {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"after a large body": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
			func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"within its body":            {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"within a chunk":             {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"with the next request sent": {"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n", func(http.ResponseWriter, *http.Request) {}},
		"within a silent stream": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "event")
			flush(w)
		}},
		"of HTTP/1.0, within a silent stream": {"GET / HTTP/1.0\r\nHost: x\r\n\r\n", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "event")
			flush(w)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan time.Time, 1)
			upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				began <- struct{}{}
				c.handle(w, r)
				<-r.Context().Done()
				ended <- time.Now()
			})
			f := newFront(t, upstream, func(s *configs.Settings) { s.UpstreamTimeout = time.Minute })
			client := f.dial()
			if _, err := io.WriteString(client, c.request); err != nil {
				t.Fatal(err)
			}
			next(t, began, "the request")
			time.Sleep(50 * time.Millisecond)
			left := time.Now()
			_ = client.Close()
			if took := next(t, ended, "the end upstream").Sub(left); took > time.Second {
				t.Errorf("the upstream noticed after %v", took)
			}
			if len(f.forward.slots) > 0 {
				time.Sleep(200 * time.Millisecond)
			}
			if n := len(f.forward.slots); n > 0 {
				t.Errorf("%d connections are still held", n)
			}
		})
	}
}

func TestATruncatedUploadNeverLooksComplete(t *testing.T) {
	for name, request := range map[string]string{
		"of known length":       "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 50_000),
		"of a small length":     "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
		"within a chunk":        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
		"between chunks":        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"before the last line":  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
		"with a broken chunk":   "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
		"with a length of text": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var complete atomic.Bool
			upstream := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					complete.Store(true)
				}
			})
			f := newFront(t, upstream, nil)
			client := f.dial()
			defer client.Close() //nolint:errcheck // over
			if _, err := io.WriteString(client, request); err != nil {
				t.Fatal(err)
			}
			if tcp, ok := client.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
				t.Fatal("cannot close one way")
			}
			if response := f.read(bufio.NewReader(client), "POST"); response.StatusCode != http.StatusBadRequest {
				t.Errorf("status %d, %s", response.StatusCode, response.body)
			}
			time.Sleep(20 * time.Millisecond)
			if complete.Load() {
				t.Error("the upstream took the body for complete")
			}
		})
	}
}

func TestATruncatedDownloadNeverLooksComplete(t *testing.T) {
	long := strings.Repeat("x", 50_000)
	for name, answer := range map[string]string{
		"of known length": "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long,
		"of small length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
		"within a chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n" + long,
		"between chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"before the end":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
		"after nothing":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		for _, version := range []string{"1.1", "1.0"} {
			t.Run(name+", HTTP/"+version, func(t *testing.T) {
				f := newFront(t, rawUpstream(t, func(c net.Conn) {
					readHead(bufio.NewReader(c))
					_, _ = io.WriteString(c, answer)
				}), nil)
				response := f.raw("GET / HTTP/" + version + "\r\nHost: x\r\n\r\n")
				if response.err == nil && response.StatusCode == http.StatusOK {
					t.Errorf("%d bytes look complete: %v", len(response.body), response.Header)
				}
			})
		}
	}
}

func TestAStalledClientIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		handle  http.HandlerFunc
		status  int // 0: just the end
	}{
		"sending":                   {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, http.StatusRequestTimeout},
		"sending chunks":            {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, http.StatusRequestTimeout},
		"taking":                    {"GET / HTTP/1.1\r\nHost: x\r\nX-Length: 1\r\n\r\n", endless, 0},
		"taking what has no length": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", endless, 0},
		"of HTTP/1.0":               {"GET / HTTP/1.0\r\nHost: x\r\n\r\n", endless, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{}, 1)
			upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				c.handle(w, r)
				ended <- struct{}{}
			})
			f := newFront(t, upstream, nil)
			f.forward.stall = 300 * time.Millisecond
			client := f.dial()
			defer client.Close() //nolint:errcheck // over
			if _, err := io.WriteString(client, c.request); err != nil {
				t.Fatal(err)
			}
			next(t, ended, "the end upstream")
			if c.status != 0 {
				if response := f.read(bufio.NewReader(client), "POST"); response.StatusCode != c.status || response.problem().Code != CodeRequestTimeout {
					t.Errorf("status %d, %s", response.StatusCode, response.body)
				}
			}
		})
	}
}

// endless writes until it fails.
func endless(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Length") != "" {
		w.Header().Set("Content-Length", fmt.Sprint(1<<40))
	}
	block := make([]byte, 64<<10)
	for {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}
