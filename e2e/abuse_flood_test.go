package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// TestMoreConnectionsThanFilesHurtNobodyWhoIsThere opens more connections than
// the process may have files. Those wait; whoever has a connection is served,
// and the gateway still reaches its store and answers its probes.
func TestMoreConnectionsThanFilesHurtNobodyWhoIsThere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, inMemory...)
	g := command(t, settings{"GATEWAY_STORE": server.URL()}, "serve")
	cmd := process(t, g.settings)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `ulimit -n 128 && exec "$0" serve`, binary}
	g.launch(cmd)
	g.untilServing()
	c, owner := g.client(t, uuid.New()), uuid.New()
	c.acquire("key", owner, 300).granted(http.StatusCreated) // and keeps its connection
	before := g.vitals()
	connections := make([]net.Conn, 300)
	for i := range connections {
		connections[i] = connectTo(t, g)
		if _, err := io.WriteString(connections[i], "GET /locks/key HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // for the gateway to meet them
	c.renew("key", owner, 300).granted(http.StatusOK)
	if err := server.Client(t).ClientKillByFilter(t.Context(), "TYPE", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new connection to the store", func() bool {
		return c.renew("key", owner, 300).status == http.StatusOK
	})
	for _, page := range []string{"/healthz", "/readyz"} {
		if status, body := g.ask(page); status != http.StatusOK {
			t.Errorf("%s: %d %s", page, status, body)
		}
	}
	for _, conn := range connections {
		_ = conn.Close()
	}
	g.client(t, uuid.New()).read("key").free()
	c.http.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	g.recovered(t, before)
}

// TestClientsThatBreakOffAreNoFailures resets connections in the middle of
// everything. Nobody is there to be answered, and nothing is wrong.
func TestClientsThatBreakOffAreNoFailures(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	body := ttlBody(60)
	for name, text := range map[string]string{
		"a sized body":    s.request(acquireLine, lengthOf(body)) + body,
		"a chunked body":  s.request(acquireLine, chunkedHeader) + chunks(body) + "\r\n",
		"an expected one": s.request(acquireLine, lengthOf(body), "Expect: 100-continue\r\n") + body,
		"no body":         s.request("GET /locks/key HTTP/1.1"),
		"nowhere":         s.request("POST /nowhere HTTP/1.1", lengthOf(body)) + body,
		"malformed":       "GET\r\n\r\n",
	} {
		for range 25 {
			if err := s.breakOff(text[:rand.IntN(len(text))], rand.N(3*time.Millisecond)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s.read("key").held()
	s.silent(t)
	s.healthy(t, s.before)
}

func (s *siege) breakOff(text string, after time.Duration) error {
	conn, err := dial(s.t, s.gateway)
	if err != nil {
		return err
	}
	_, _ = io.WriteString(conn, text) // the gateway may have closed
	time.Sleep(after)
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return fmt.Errorf("a connection of type %T", conn)
	}
	return errors.Join(tcp.SetLinger(0), tcp.Close())
}

var mutations = flag.Int("mutations", 1500, "how many mutated requests to send")

// TestNoMutationOfARequestBreaksTheGateway changes the attacks of the tables at
// random. What the answers are is not known, but that there are answers is,
// that each has our form, and that none is a failure.
func TestNoMutationOfARequestBreaksTheGateway(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	seeds := s.seeds()
	work := make(chan string)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for text := range work {
				if err := s.answered(text); err != nil {
					t.Errorf("%q: %v", text, err)
				}
			}
		})
	}
	for range *mutations {
		work <- mutate(seeds[rand.IntN(len(seeds))], seeds[rand.IntN(len(seeds))])
	}
	close(work)
	workers.Wait()
	s.silent(t)
	s.healthy(t, s.before)
}

// seeds are good requests and attacks that are not too long to print.
func (s *siege) seeds() (texts []string) {
	body := ttlBody(60)
	texts = append(texts, s.request(acquireLine, lengthOf(body))+body, s.request("GET /locks/key HTTP/1.1"))
	for _, attacks := range []func(*siege) []attack{
		badLines, versions, badHeaders, doubledHeaders, badRequestIDs, foreignHeaders, badFraming, badChunks, trailers,
		foreignBodies, strayBodies, expectations, otherProtocols, pipelines,
	} {
		for _, a := range attacks(s) {
			if len(a.text) < 3_000 && !a.head {
				texts = append(texts, a.text)
			}
		}
	}
	return texts
}

// mutate changes a text in one to four places.
func mutate(text, other string) string {
	b := []byte(text)
	for range 1 + rand.IntN(4) {
		if len(b) == 0 {
			return ""
		}
		at := rand.IntN(len(b))
		end := min(len(b), at+1+rand.IntN(20))
		switch rand.IntN(6) {
		case 0:
			b[at] ^= 1 << rand.IntN(8)
		case 1:
			b = append(b[:at:at], b[end:]...) // less
		case 2:
			b = append(b[:end:end], b[at:]...) // twice
		case 3:
			const telling = "\r\n \t\x00:;#/%?0,"
			b[at] = telling[rand.IntN(len(telling))]
		case 4:
			b = append(b[:at:at], append([]byte("\r\n"), b[at:]...)...)
		case 5:
			b = append(b[:at:at], other[rand.IntN(len(other)):]...)
		}
	}
	return string(b)
}

// answered says what is wrong with what comes back for a text and its end.
func (s *siege) answered(text string) error {
	conn, err := dial(s.t, s.gateway)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it is over
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return fmt.Errorf("a connection of type %T", conn)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, _ = io.WriteString(conn, text) // the gateway may have closed
	_ = tcp.CloseWrite()
	answers, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("answered %q, and then %w", answers, err)
	}
	in := bufio.NewReader(bytes.NewReader(answers))
	for peeks(in) {
		r, body, err := readAnswer(in, false)
		if err != nil {
			return fmt.Errorf("answered %q: %w", answers, err)
		}
		if err := wellFormed(r, body, false); err != nil && !strings.HasPrefix(text, http.MethodHead) {
			return err
		}
	}
	if s.quoted(string(answers)) {
		return fmt.Errorf("the answer quotes it: %q", answers)
	}
	return nil
}
