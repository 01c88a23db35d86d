package middleware

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// The bounds of the audit lines that are kept in memory.
const (
	recentLines = 10_000
	recentBytes = 16 << 20
)

// recent keeps the audit lines written last, as many as the bounds allow.
type recent struct {
	mu    sync.Mutex
	ring  [][]byte
	first int // the oldest
	count int
	bytes int
	limit int // of bytes
}

func newRecent(lines, bytes int) *recent {
	return &recent{ring: make([][]byte, lines), limit: bytes}
}

// add keeps a line, which nobody may change any more.
func (r *recent) add(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.count > 0 && (r.count == len(r.ring) || r.bytes+cap(line) > r.limit) {
		r.bytes -= cap(r.ring[r.first])
		r.ring[r.first] = nil
		r.first = (r.first + 1) % len(r.ring)
		r.count--
	}
	r.ring[(r.first+r.count)%len(r.ring)] = line
	r.count++
	r.bytes += cap(line)
}

// about finds the lines of a request id, the oldest first.
func (r *recent) about(requestID string) (found [][]byte) {
	for _, line := range r.snapshot() {
		if isAbout(line, requestID) {
			found = append(found, line)
		}
	}
	return found
}

// snapshot copies the list and not the lines: whoever adds one waits for
// microseconds, however long the search takes.
func (r *recent) snapshot() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := make([][]byte, 0, r.count)
	for i := range r.count {
		lines = append(lines, r.ring[(r.first+i)%len(r.ring)])
	}
	return lines
}

// isAbout relies on the request id being the first member of a line. Its
// letter case is the client's.
func isAbout(line []byte, requestID string) bool {
	rest, found := bytes.CutPrefix(line, []byte(`{"request_id":"`))
	return found && len(rest) > len(requestID) && bytes.EqualFold(rest[:len(requestID)], []byte(requestID))
}

// ServeHTTP answers GET /audit?request_id=ID with the recent audit lines of
// that id, one for each attempt, the newest last: an empty array if there is
// none in the memory of this process.
func (a *Audit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	ids := r.URL.Query()["request_id"]
	if len(ids) != 1 || !isUUID([]byte(ids[0])) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(invalid("The query must have request_id once, one UUID in its 36-character form.")) // a client that has left needs no answer
		return
	}
	lines := bytes.Join(a.recent.about(ids[0]), []byte(","))
	_, _ = w.Write(append(append([]byte("[\n"), lines...), "]\n"...)) // the same
}
