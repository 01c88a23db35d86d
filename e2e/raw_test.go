package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// conversation is what somebody writes to a connection, and the statuses of
// the answers on it.
type conversation struct {
	name   string
	text   string
	want   []int
	closed bool // and then the gateway closes the connection
}

// TestRequestsThatNoClientLibrarySends writes to the connection itself. None of
// these may touch a lock but those that are answered with 201 or 204.
func TestRequestsThatNoClientLibrarySends(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	project, owner := uuid.New(), uuid.New()
	known := "Host: gateway\r\nAuthorization: Bearer " + g.client(t, project).credential + "\r\n"
	for _, row := range append(oddHeads(known, owner), oddBodies(known, uuid.New())...) {
		t.Run(row.name, func(t *testing.T) {
			c := g.client(t, project)
			l := c.acquire("key", owner, 3600).granted(http.StatusCreated)
			row.hold(t, g)
			if got := c.read("key").held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
				t.Errorf("it changed the lease %+v to %+v", l, got)
			}
			c.read("smuggled").free()
		})
	}
}

// oddHeads are from the owner of the lock "key", and all ask for its release.
func oddHeads(known string, owner uuid.UUID) []conversation {
	token := lockTokenHeader + ": " + owner.String() + "\r\n"
	// Exactly as long as what the gateway reads at most, so that nothing is
	// left unread and its answer cannot be lost when it closes.
	tooLong := func(start string) string { return start + strings.Repeat("x", 16<<10-len(start)) }
	return []conversation{
		{"no HTTP", "release key\r\n\r\n", []int{400}, true},
		{"no host", "DELETE /locks/key/lease HTTP/1.1\r\n" + strings.TrimPrefix(known, "Host: gateway\r\n") + token + "\r\n", []int{400}, true},
		{"two hosts", "DELETE /locks/key/lease HTTP/1.1\r\nHost: other\r\n" + known + token + "\r\n", []int{400}, true},
		{"long headers", tooLong("DELETE /locks/key/lease HTTP/1.1\r\n" + known + token + "X-Long: "), []int{431}, true},
		{"long path", tooLong("DELETE /locks/key/"), []int{431}, true},
		{"space in the path", "DELETE /locks/key /lease HTTP/1.1\r\n" + known + token + "\r\n", []int{400}, true},
		{"NUL in the path", "DELETE /locks/key\x00/lease HTTP/1.1\r\n" + known + token + "\r\n", []int{400}, true},
		{"Latin-1 in the path", "DELETE /locks/caf\xe9/lease HTTP/1.1\r\n" + known + token + "\r\n", []int{400}, false},
		{"backslash in the path", "DELETE /locks\\key/lease HTTP/1.1\r\n" + known + token + "\r\n", []int{404}, false},
		{"fragment in the path", "DELETE /locks/key#/lease HTTP/1.1\r\n" + known + token + "\r\n", []int{400}, false},
		{"space after a header name", "DELETE /locks/key/lease HTTP/1.1\r\n" + known + lockTokenHeader + " : " + owner.String() + "\r\n\r\n", []int{400}, true},
		{"folded lock token", "DELETE /locks/key/lease HTTP/1.1\r\n" + known + lockTokenHeader + ":\r\n " + owner.String() + "\r\n\r\n", []int{400}, false},
		{"folded credential", "DELETE /locks/key/lease HTTP/1.1\r\n" + strings.Replace(known, "Bearer ", "Bearer\r\n ", 1) + token + "\r\n", []int{400}, false},
		{"lock token with underscores", "DELETE /locks/key/lease HTTP/1.1\r\n" + known + strings.ReplaceAll(lockTokenHeader, "-", "_") + ": " + owner.String() + "\r\n\r\n", []int{400}, false},
		{"lock tokens in two spellings", "DELETE /locks/key/lease HTTP/1.1\r\n" + known + token + strings.ToLower(token) + "\r\n", []int{400}, false},
		{"NUL in a header", "DELETE /locks/key/lease HTTP/1.1\r\n" + known + token + "X: \x00\r\n\r\n", []int{400}, true},
		{"CR in a header", "DELETE /locks/key/lease HTTP/1.1\r\n" + known + "X: y\r" + token + "\r\n", []int{400}, true},
	}
}

// oddBodies acquire other locks, with a second request behind the first.
func oddBodies(known string, owner uuid.UUID) []conversation {
	body := ttlBody(60)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(body), body)
	token := lockTokenHeader + ": " + owner.String() + "\r\n"
	acquire := "POST /locks/other/lease HTTP/1.1\r\n" + known
	next := "GET /locks/next HTTP/1.1\r\n" + known + "\r\n"
	smuggled := "POST /locks/smuggled/lease HTTP/1.1\r\n" + known + token + length + "\r\n" + body
	return []conversation{
		{"two in a row", acquire + token + length + "\r\n" + body + next, []int{201, 200}, false},
		{"chunked", acquire + token + "Transfer-Encoding: chunked\r\n\r\n" + chunk + "\r\n" + next, []int{201, 200}, false},
		{"refused without looking at the body", strings.Replace(acquire, "Bearer", "Basic", 1) + length + "\r\n" + body + next, []int{401, 200}, false},
		{"chunked, too much", acquire + token + "Transfer-Encoding: chunked\r\n\r\n1001\r\n" + strings.Repeat(" ", 4097) + "\r\n0\r\n\r\n", []int{413}, true},
		{"lock token in a trailer", acquire + "Transfer-Encoding: chunked\r\nTrailer: " + lockTokenHeader + "\r\n\r\n" + chunk + token + "\r\n", []int{400}, false},
		{"two lengths", acquire + token + length + "Content-Length: 0\r\n\r\n" + body + smuggled, []int{400}, true},
		{"a length and chunked", acquire + token + length + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, []int{400}, true},
		{"unknown transfer encoding", acquire + token + "Transfer-Encoding: xchunked\r\n\r\n" + smuggled, []int{400}, true},
		{"negative length", acquire + token + "Content-Length: -1\r\n\r\n" + smuggled, []int{400}, true},
		{"length with a sign", acquire + token + strings.Replace(length, ": ", ": +", 1) + "\r\n" + body + smuggled, []int{400}, true},
		{"encoded body", acquire + token + length + "Content-Encoding: gzip\r\n\r\n" + body, []int{400}, false},
	}
}

// hold writes the text and judges what comes back.
func (row conversation) hold(t *testing.T, g *gateway) {
	t.Helper()
	conn := connectTo(t, g)
	if _, err := io.WriteString(conn, row.text); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for i, status := range row.want {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v, want %d", i+1, err, status)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != status {
			t.Errorf("answer %d: %d %s (%v), want %d", i+1, r.StatusCode, body, err, status)
		}
		wantProblem(t, r, body)
	}
	if !row.closed {
		return
	}
	if more, err := io.ReadAll(in); len(more) > 0 || err != nil {
		t.Errorf("after the last answer came %q, %v; want the end", more, err)
	}
}

// wantProblem checks that an error is one of ours: JSON with a code and a request id.
func wantProblem(t *testing.T, r *http.Response, body []byte) {
	t.Helper()
	if r.StatusCode < http.StatusBadRequest {
		return
	}
	codes := map[int]string{400: "invalid_request", 401: "unauthorized", 404: "not_found", 413: "payload_too_large", 431: "headers_too_large"}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || p.Error == "" || p.Code != codes[r.StatusCode] {
		t.Errorf("the body of the %d is %s", r.StatusCode, body)
	}
	if r.Header.Get("Content-Type") != "application/json" || uuid.Validate(r.Header.Get(requestIDHeader)) != nil {
		t.Errorf("the headers of the %d are %v", r.StatusCode, r.Header)
	}
}
