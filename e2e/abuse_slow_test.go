package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

const (
	connectionTimeout = 10 * time.Second // of the gateway, for a request and for an answer
	connectionSlack   = 8 * time.Second  // beside it, for a machine that is busy
	honestPatience    = 3 * time.Second  // of clients that are not slow, while others are
)

// slowly is how a slow client sends: at once what comes first, and then a byte
// a second.
type slowly struct {
	name, first, then string
	last              int // status of the last answer; 0: there may be none
}

// slowSenders are clients of which 200 at a time wait for their time to end.
func slowSenders(s *siege) []slowly {
	body := strings.Repeat(" ", 200)
	sized := s.request(acquireLine, lengthOf(body))
	chunked := s.request(acquireLine, chunkedHeader)
	return []slowly{
		{"silent", "", "", 408},
		{"line breaks", "", strings.Repeat("\r\n", 100), 0},
		{"request line", "", s.request(acquireLine), 408},
		{"headers", acquireLine + "\r\n" + s.known(), strings.Repeat("X: y\r\n", 100), 408},
		{"one long header", acquireLine + "\r\n" + s.known() + "X: ", body, 408},
		{"headers that never end", acquireLine + "\r\n" + s.known(), "", 408},
		{"lines that end with line feeds alone", strings.ReplaceAll(s.request(acquireLine), "\r\n", "\n"), "", 408},
		{"body", sized, body, 408},
		{"no body", sized, "", 408},
		{"chunks", chunked, strings.Repeat("1\r\n \r\n", 100), 0},
		{"a chunk", chunked + "c8\r\n", body, 408},
		{"chunk size", chunked, strings.Repeat("0", 10), 0},
		{"chunk extension", chunked + "1;", body, 400},
		{"trailer", chunked + "1\r\n \r\n0\r\nX: ", body, 0},
		{"expected body", s.request(acquireLine, lengthOf(body), "Expect: 100-continue\r\n"), body, 408},
		{"body that nobody wants", s.request("GET /locks/key HTTP/1.1", lengthOf(body)), body, 408},
		{"body to nowhere", s.request("POST /nowhere HTTP/1.1", chunkedHeader), strings.Repeat("1\r\n \r\n", 100), 404},
		{"body without a credential", acquireLine + "\r\n" + s.host() + lengthOf(body) + "\r\n", body, 408},
		{"request after a good one", s.request("GET /locks/key HTTP/1.1") + "GET", s.request(" /locks/key HTTP/1.1"), 0},
		{"body that is too large", s.request(acquireLine, "Content-Length: 4294967296\r\n"), body, 408},
	}
}

// TestSlowSendersAreCutAndHurtNobody keeps 200 connections busy with a byte a
// second each. All end when their time is over, with an answer or without, and
// all along honest clients are served at once.
func TestSlowSendersAreCutAndHurtNobody(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	served := s.serveHonestly(t)
	var senders sync.WaitGroup
	for _, how := range slowSenders(s) {
		for range 10 {
			senders.Go(func() { s.sendSlowly(t, how) })
		}
	}
	senders.Wait()
	served()
	s.read("key").held()
	s.read("new").free()
	s.silent(t)
	s.healthy(t, s.before)
}

// sendSlowly fails the test unless the gateway closes the connection in time.
func (s *siege) sendSlowly(t *testing.T, how slowly) {
	conn, err := dial(t, s.gateway)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close() //nolint:errcheck // it is over
	began := time.Now()
	_ = conn.SetDeadline(began.Add(connectionTimeout + connectionSlack)) // of a connection that is open
	var sending sync.WaitGroup
	sending.Go(func() { writeSlowly(conn, how) })
	answers, err := io.ReadAll(conn)
	took := time.Since(began)
	_ = conn.Close() // which ends the sender
	sending.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection is open after %v", how.name, took)
	}
	in := bufio.NewReader(strings.NewReader(string(answers)))
	last := 0
	for peeks(in) {
		r, body, err := readAnswer(in, false)
		if err != nil {
			t.Errorf("%s: answered %q after %v: %v", how.name, answers, took, err)
			return
		}
		if err := wellFormed(r, body, false); err != nil {
			t.Errorf("%s: %v after %v", how.name, err, took)
		}
		last = r.StatusCode
	}
	if how.last != 0 && last != how.last {
		t.Errorf("%s: answered %q after %v, want %d", how.name, answers, took, how.last)
	}
	if s.quoted(string(answers)) {
		t.Errorf("%s: the answer quotes the request: %q", how.name, answers)
	}
}

func peeks(in *bufio.Reader) bool {
	_, err := in.Peek(1)
	return err == nil
}

// writeSlowly writes until it is done or the connection is closed.
func writeSlowly(conn net.Conn, how slowly) {
	if _, err := io.WriteString(conn, how.first); err != nil {
		return
	}
	for i := range len(how.then) {
		time.Sleep(time.Second)
		if _, err := io.WriteString(conn, how.then[i:i+1]); err != nil {
			return
		}
	}
}

// serveHonestly acquires and releases a lock all along, each time on a new
// connection, until the function that it returns is called.
func (s *siege) serveHonestly(t *testing.T) (stop func()) {
	c := s.gateway.client(t, uuid.New())
	done := make(chan struct{})
	var clients sync.WaitGroup
	var took []time.Duration
	clients.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			c.http.CloseIdleConnections()
			owner := uuid.New()
			for _, r := range []request{acquire("honest", owner, 60), release("honest", owner)} {
				a, err := c.send(r)
				if err != nil {
					t.Errorf("an honest client: %v", err)
					return
				}
				if a.status != http.StatusCreated && a.status != http.StatusNoContent && a.status != http.StatusTooManyRequests {
					t.Errorf("an honest client: %v", a)
				}
				took = append(took, a.received.Sub(a.sent))
			}
		}
	})
	return func() {
		close(done)
		clients.Wait()
		p := percentiles(took)
		t.Logf("honest clients: %v", p)
		if len(took) == 0 || p.p99 > honestPatience {
			t.Errorf("honest clients were served slowly: %v", p)
		}
	}
}

func TestARequestThatIsSlowButInTimeIsServed(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	c := g.client(t, uuid.New())
	r := acquire("key", uuid.New(), 60)
	conn := connectTo(t, g)
	text := "POST " + r.path + " HTTP/1.1\r\nHost: gateway\r\n" + authorization + ": Bearer " + c.credential + "\r\n" +
		lockTokenHeader + ": " + r.header.Get(lockTokenHeader) + "\r\n" + lengthOf(r.body) + "\r\n" + r.body
	for part := range strings.SplitAfterSeq(text, "\n") {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
	}
	if a, body, err := readAnswer(bufio.NewReader(conn), false); err != nil || a.StatusCode != http.StatusCreated {
		t.Fatalf("%v %s (%v)", a, body, err)
	}
	c.read("key").held()
}

// TestClientsThatDoNotReadAreCutAndHurtNobody sends requests without end, and
// reads no answer or one byte a second. The gateway stops reading when it
// cannot write, and closes when the time for an answer is over.
func TestClientsThatDoNotReadAreCutAndHurtNobody(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	served := s.serveHonestly(t)
	nowhere := "GET /nowhere HTTP/1.1\r\n" + s.host() + "\r\n"
	refused := "GET /locks/key HTTP/1.1\r\n" + s.host() + authorization + ": Bearer x.y.z\r\n\r\n"
	var clients sync.WaitGroup
	for _, c := range []struct {
		request string
		reads   bool
	}{{nowhere, false}, {nowhere, true}, {nowhere, false}, {refused, false}} {
		clients.Go(func() { s.sendWithoutReading(t, c.request, c.reads) })
	}
	clients.Wait()
	served()
	s.read("key").held()
	s.silent(t)
	s.healthy(t, s.before)
}

// sendWithoutReading fails the test unless the gateway closes the connection in
// time, before it has taken more than what the system keeps for it.
func (s *siege) sendWithoutReading(t *testing.T, request string, reads bool) {
	conn, err := dial(t, s.gateway)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close() //nolint:errcheck // it is over
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(4 << 10) // or the system reads for us
	}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	if reads {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
				_, _ = conn.Read(make([]byte, 1)) // the end shows in what is written
			}
		})
	}
	const most = 64 << 20
	sent, bulk := 0, strings.Repeat(request, 1+(64<<10)/len(request))
	for err == nil && sent < most {
		var n int
		_ = conn.SetWriteDeadline(time.Now().Add(connectionTimeout + patience)) // it has thousands to answer first
		n, err = io.WriteString(conn, bulk)
		sent += n
	}
	close(stop)
	_ = conn.Close()
	reading.Wait()
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("sent %d KB without reading, and then %v; want a closed connection: %q", sent>>10, err, request)
	}
}
