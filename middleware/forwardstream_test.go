package middleware

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/project-locks/gateway/configs"
)

// noise is n bytes that nobody has in memory.
func noise(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), n)
}

func sumOf(r io.Reader) string {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%d %x %v", n, h.Sum(nil)[:8], err)
}

const manyBytes = 64 << 20

func TestBodiesAreStreamedBothWaysInLittleMemory(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if r.URL.Query().Has("length") {
				w.Header().Set("Content-Length", fmt.Sprint(manyBytes))
			}
			_, _ = io.Copy(w, noise(manyBytes))
			return
		}
		_, _ = io.WriteString(w, sumOf(r.Body))
	})
	f := newFront(t, upstream, nil)
	want := sumOf(noise(manyBytes))
	for name, c := range map[string]struct {
		method, path string
		length       int64
	}{
		"an upload of known length":     {http.MethodPost, "/", manyBytes},
		"an upload of unknown length":   {http.MethodPut, "/", -1},
		"a download of known length":    {http.MethodGet, "/?length", 0},
		"a download of unknown length":  {http.MethodGet, "/", 0},
		"an upload in a DELETE request": {http.MethodDelete, "/", -1},
	} {
		t.Run(name, func(t *testing.T) {
			var body io.Reader
			if c.method != http.MethodGet {
				body = noise(manyBytes)
			}
			request, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+f.addr+c.path, body)
			if err != nil {
				t.Fatal(err)
			}
			request.ContentLength = c.length
			peak := watchHeap(t)
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // read to its end
			var got string
			if c.method == http.MethodGet {
				got = sumOf(response.Body)
			} else {
				text, _ := io.ReadAll(response.Body) // a wrong text is seen below
				got = string(text)
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if p := peak(); p > 24<<20 {
				t.Errorf("the heap grew by %d MiB", p>>20)
			}
		})
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:errcheck // it is one
}

// watchHeap says by how much the heap has grown at most, client and upstream
// included, when it is asked.
func watchHeap(t *testing.T) (peak func() uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before := heap()
	highest := before
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			highest = max(highest, heap())
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() uint64 {
		stop()
		watching.Wait()
		return highest - before
	}
}

func TestEventsArriveAtOnce(t *testing.T) {
	for name, header := range map[string]string{"without a length": "", "with a length": "100000"} {
		for _, version := range []string{"1.1", "1.0"} {
			t.Run(name+", HTTP/"+version, func(t *testing.T) {
				more := make(chan string)
				upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					if header != "" {
						w.Header().Set("Content-Length", header)
					}
					for {
						flush(w)
						select {
						case event := <-more:
							_, _ = io.WriteString(w, event)
						case <-r.Context().Done():
							return
						}
					}
				})
				f := newFront(t, upstream, func(s *configs.Settings) { s.UpstreamTimeout = 200 * time.Millisecond })
				client := f.dial()
				defer client.Close() //nolint:errcheck // over
				if _, err := io.WriteString(client, "GET / HTTP/"+version+"\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				r := bufio.NewReader(client)
				response, err := http.ReadResponse(r, nil) // comes before the first event
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close() //nolint:errcheck // has no end
				for n := range 3 {
					time.Sleep(time.Duration(n) * 150 * time.Millisecond) // longer than the time-out to the first byte
					event := fmt.Sprintf("data: %d\n\n", n)
					more <- event
					if err := client.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
						t.Fatal(err)
					}
					got := make([]byte, len(event))
					if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != event {
						t.Fatalf("got %q, %v", got, err)
					}
				}
			})
		}
	}
}

func TestAConnectionServesManyRequests(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a wrong one is seen by the client
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("Etag", "x")
			w.WriteHeader(http.StatusNotModified)
		case "/418":
			w.WriteHeader(http.StatusTeapot)
		case "/chunked":
			flush(w)
		}
		_, _ = io.WriteString(w, r.Method+r.URL.Path+" "+string(body)) //nolint:gosec // no browser here
	})
	f := newFront(t, upstream, nil)
	client := f.dial()
	defer client.Close() //nolint:errcheck // over
	r := bufio.NewReader(client)
	large := strings.Repeat("l", 100_000)
	for round := range 2 { // one by one, and all at once
		requests := []struct{ method, path, body, want string }{
			{"GET", "/a", "", "GET/a "}, {"HEAD", "/a", "", ""}, {"POST", "/b", "abc", "POST/b abc"}, {"GET", "/204", "", ""}, {"GET", "/304", "", ""},
			{"PUT", "/chunked", large, "PUT/chunked " + large}, {"GET", "/418", "", "GET/418 "}, {"HEAD", "/chunked", "", ""}, {"GET", "/z", "", "GET/z "},
		}
		texts := make([]string, len(requests))
		for i, q := range requests {
			texts[i] = fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", q.method, q.path, len(q.body), q.body)
		}
		if round == 1 {
			go io.WriteString(client, strings.Join(texts, "")) //nolint:errcheck // is seen below
		}
		for i, q := range requests {
			if round == 0 {
				if _, err := io.WriteString(client, texts[i]); err != nil {
					t.Fatal(err)
				}
			}
			response := f.read(r, q.method)
			if response.body != q.want || response.err != nil || response.Close {
				t.Fatalf("%s %s: status %d, %.100q, %v", q.method, q.path, response.StatusCode, response.body, response.err)
			}
			if q.path == "/418" && response.StatusCode != http.StatusTeapot || q.path == "/204" && response.StatusCode != http.StatusNoContent || q.path == "/304" && response.Header.Get("Etag") != "x" {
				t.Errorf("%s: status %d, %v", q.path, response.StatusCode, response.Header)
			}
			if q.method == http.MethodHead && q.path == "/a" && response.ContentLength != int64(len("HEAD/a ")) {
				t.Errorf("HEAD: length %d", response.ContentLength)
			}
		}
	}
}

func TestClientsOfHTTP10GetWhatTheyUnderstand(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "part one, ")
		if r.URL.Path == "/chunked" {
			flush(w)
		}
		_, _ = io.WriteString(w, "part two")
	})
	f := newFront(t, upstream, nil)
	for _, path := range []string{"/", "/chunked"} {
		for _, line := range []string{"", "Connection: keep-alive\r\n"} {
			response := f.raw("GET " + path + " HTTP/1.0\r\n" + line + "\r\n")
			if response.body != "part one, part two" || response.err != nil || len(response.TransferEncoding) > 0 || len(response.Header.Values(HeaderRequestID)) != 1 {
				t.Errorf("%s %q: %q, %v, %v", path, line, response.body, response.err, response.Header)
			}
		}
	}
}

func TestTrailersOfTheUpstreamArePassedOn(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Absent, Content-Type, "+HeaderRequestID)
		_, _ = io.WriteString(w, "body")
		flush(w)
		w.Header().Set("X-Sum", "42")
	})
	f := newFront(t, upstream, nil)
	if response := f.get("/"); response.body != "body" || response.err != nil || response.Trailer.Get("X-Sum") != "42" || response.Header.Get("X-Sum") != "" || len(response.Header.Values(HeaderRequestID)) != 1 {
		t.Errorf("%q, %v, headers %v, trailers %v", response.body, response.err, response.Header, response.Trailer)
	}
}

func TestTheUpstreamMayAnswerBeforeItHasTheBody(t *testing.T) {
	for name, answer := range map[string]string{
		"and refuse it":               "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
		"and refuse it in chunks":     "HTTP/1.1 413 Payload Too Large\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
		"with headers alone":          "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n",
		"with a body of 100,000":      "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
		"and go on with it for a bit": "HTTP/1.1 413 Payload Too Large\r\n\r\nno",
	} {
		for _, framing := range []string{"Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			t.Run(name+", "+framing[:3], func(t *testing.T) {
				f := newFront(t, rawUpstream(t, func(c net.Conn) {
					r := bufio.NewReader(c)
					readHead(r)
					_, _ = io.CopyN(io.Discard, r, 1000)
					_, _ = io.WriteString(c, answer)
					_, _ = io.CopyN(io.Discard, r, 50_000)
				}), nil)
				for range 5 {
					client := f.dial()
					_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\n"+framing+"\r\n\r\n")
					go func() {
						block := []byte("2000\r\n" + strings.Repeat("x", 8192) + "\r\n")
						for {
							if _, err := client.Write(block); err != nil {
								return
							}
						}
					}()
					response := f.read(bufio.NewReader(client), "POST")
					if response.StatusCode != http.StatusRequestEntityTooLarge {
						t.Errorf("status %d, %.100q, %v", response.StatusCode, response.body, response.err)
					}
					_ = client.Close()
				}
			})
		}
	}
}

// Clients that send first and read then lose the answer when their connection
// is reset meanwhile.
func TestClientsGetAnAnswerThatComesBeforeTheyHaveSentAll(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	f := newFront(t, upstream, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for credential, want := range map[string]int{"": http.StatusRequestEntityTooLarge, "Bearer wrong": http.StatusUnauthorized} {
		for range 10 {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+f.addr+"/", noise(8<<20))
			if err != nil {
				t.Fatal(err)
			}
			request.ContentLength = 8 << 20
			if credential != "" {
				request.Header.Set("Authorization", credential)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Errorf("%q: %v", credential, err)
				continue
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%q: status %d, want %d", credential, response.StatusCode, want)
			}
		}
	}
}

func TestAnswersAndUploadsMayOverlap(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_ = control.Flush()
		line := bufio.NewReader(r.Body)
		for {
			text, err := line.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, strings.ToUpper(text))
			_ = control.Flush()
		}
	})
	f := newFront(t, upstream, nil)
	client := f.dial()
	defer client.Close() //nolint:errcheck // over
	if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body := bufio.NewReader(response.Body)
	for range 100 {
		if _, err := io.WriteString(client, "4\r\nabc\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := body.ReadString('\n'); err != nil || line != "ABC\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	_, _ = io.WriteString(client, "0\r\n\r\n")
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("in the end: %q, %v", rest, err)
	}
}

func TestExpectationsAreMet(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	f := newFront(t, upstream, nil)
	client := f.dial()
	defer client.Close() //nolint:errcheck // over
	r := bufio.NewReader(client)
	if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if head := readHead(r); !strings.HasPrefix(head, "HTTP/1.1 100 ") {
		t.Fatalf("got %q", head)
	}
	if _, err := io.WriteString(client, "abc"); err != nil {
		t.Fatal(err)
	}
	if response := f.read(r, "POST"); response.StatusCode != http.StatusOK || response.body != "abc" {
		t.Errorf("status %d, %q", response.StatusCode, response.body)
	}
}

// webSocketUpstream changes protocols and echoes bytes.
func webSocketUpstream(t *testing.T, ended chan<- struct{}) string {
	return rawUpstream(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		fields := parseLines(readHead(r))
		if !strings.EqualFold(strings.Join(fields["upgrade"], ","), "websocket") || !strings.EqualFold(strings.Join(fields["connection"], ","), "upgrade") || len(fields["sec-websocket-key"]) != 1 {
			_, _ = io.WriteString(c, "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\nX-Volcano-Request-Id: y\r\n\r\nhello")
		_, _ = io.Copy(c, r)
		ended <- struct{}{}
	})
}

const webSocketRequest = "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n"

func openWebSocket(t *testing.T, f *front) (net.Conn, *bufio.Reader) {
	t.Helper()
	client := f.dial()
	if _, err := io.WriteString(client, webSocketRequest); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(client)
	head := readHead(r)
	fields := parseLines(head)
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") || len(fields["sec-websocket-accept"]) != 1 || len(fields["x-volcano-request-id"]) != 1 || fields["x-volcano-request-id"][0] == "y" {
		t.Fatalf("got %q", head)
	}
	hello := make([]byte, 5)
	if _, err := io.ReadFull(r, hello); err != nil || string(hello) != "hello" {
		t.Fatalf("got %q, %v", hello, err)
	}
	return client, r
}

func TestWebSocketsEcho(t *testing.T) {
	ended := make(chan struct{}, 200)
	f := newFront(t, webSocketUpstream(t, ended), func(s *configs.Settings) { s.UpstreamTimeout = time.Second })
	const connections = 200
	var all sync.WaitGroup
	for range connections {
		client, r := openWebSocket(t, f)
		all.Go(func() {
			defer client.Close() //nolint:errcheck // over
			for n := range 5 {
				message := bytes.Repeat([]byte{byte(n)}, 1+n*5000)
				go client.Write(message) //nolint:errcheck // is seen below
				got := make([]byte, len(message))
				if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, message) {
					t.Errorf("message %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	for range connections {
		next(t, ended, "the end upstream")
	}
	eventually(t, "all connections are given back", func() bool { return len(f.forward.slots) == 0 })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func TestOnlyWebSocketsAreUpgraded(t *testing.T) {
	upstream, heads := recorder(t)
	f := newFront(t, upstream, nil)
	for _, lines := range [][]string{
		{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"},
		{"Connection: Upgrade", "Upgrade: websocket, h2c"},
		{"Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"},
		{"Upgrade: websocket"},
	} {
		f.get("/", lines...)
		if fields := parseLines(next(t, heads, lines[0])); len(fields["upgrade"])+len(fields["connection"])+len(fields["http2-settings"]) > 0 {
			t.Errorf("%q arrived as %v", lines, fields)
		}
	}
	if response := newFront(t, webSocketUpstream(t, make(chan struct{}, 1)), nil).get("/"); response.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("refused by the upstream: status %d", response.StatusCode)
	}
}

func TestAnUpstreamThatLeavesEndsTheWebSocket(t *testing.T) {
	f := newFront(t, rawUpstream(t, func(c net.Conn) {
		readHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhellobye")
	}), nil)
	client, r := openWebSocket(t, f)
	defer client.Close() //nolint:errcheck // over
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "bye" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestAClientThatLeavesEndsAWebSocketThatNobodyReads(t *testing.T) {
	f := newFront(t, rawUpstream(t, func(c net.Conn) {
		readHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhello")
		<-t.Context().Done()
	}), nil)
	f.forward.stall = 300 * time.Millisecond
	client, _ := openWebSocket(t, f)
	_ = client.SetWriteDeadline(time.Now().Add(time.Second))
	for chunk := make([]byte, 1<<20); ; {
		if _, err := client.Write(chunk); err != nil {
			break // everything on the way is full, or the gateway has lost patience already
		}
	}
	if err := client.(*net.TCPConn).SetLinger(0); err != nil { //nolint:errcheck // it is one
		t.Fatal(err)
	}
	_ = client.Close()
	eventually(t, "the connection is given back", func() bool { return len(f.forward.slots) == 0 })
}

func TestAShutdownClosesWebSocketsAndFinishesTheRest(t *testing.T) {
	let := make(chan struct{})
	upstream := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begin, ")
		flush(w)
		<-let
		_, _ = io.WriteString(w, "end")
	})
	sockets := newFront(t, webSocketUpstream(t, make(chan struct{}, 1)), nil)
	client, r := openWebSocket(t, sockets)
	defer client.Close() //nolint:errcheck // over
	streams := newFront(t, upstream, nil)
	replies := make(chan reply, 2)
	for _, version := range []string{"1.0", "1.1"} {
		go func() { replies <- streams.raw("GET / HTTP/" + version + "\r\nHost: x\r\n\r\n") }()
	}
	eventually(t, "both requests are under way", func() bool { return len(streams.forward.slots) == 2 })
	time.Sleep(50 * time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sockets.forward.Drain(ctx)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("the WebSocket: %q, %v", rest, err)
	}
	drained := make(chan struct{})
	go func() { streams.forward.Drain(ctx); close(drained) }()
	down := make(chan error, 1)
	go func() { down <- streams.app.ShutdownWithContext(ctx) }()
	time.Sleep(100 * time.Millisecond)
	close(let)
	for range 2 {
		if response := next(t, replies, "an answer"); response.body != "begin, end" || response.err != nil {
			t.Errorf("%q, %v", response.body, response.err)
		}
	}
	next(t, drained, "the end of draining")
	if err := next(t, down, "the end of the server"); err != nil {
		t.Error(err)
	}
	late := newFront(t, webSocketUpstream(t, make(chan struct{}, 1)), nil)
	late.forward.Drain(ctx)
	c := late.dial()
	defer c.Close() //nolint:errcheck // over
	_, _ = io.WriteString(c, webSocketRequest)
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a WebSocket of a gateway that ends: %v", err)
	}
}
