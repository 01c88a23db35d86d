package middleware

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

var errUploadOver = errors.New("the request is over")

// upload is a request body on its way to the upstream. The transport may go on
// reading it when the upstream has answered already, while the server takes
// the body back for the next request as soon as the response is sent: reading
// it then would crash the process. So the upload ends before that.
type upload struct {
	client *fasthttp.RequestCtx
	body   io.Reader
	left   int64         // bytes to come; negative when unknown
	stall  time.Duration // for how long the client may send nothing
	wait   *wait

	begun    atomic.Bool // something may have been read
	ending   atomic.Bool // Read begins nothing any more
	complete atomic.Bool // the body was read to its end
	mu       sync.Mutex  // held while reading
	err      error       // the first that reading gave, except for io.EOF
}

// Read reads what the client sends.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.complete.Load() {
		return 0, io.EOF
	}
	if u.err != nil {
		return 0, u.err
	}
	u.begun.Store(true)
	u.wait.pause()
	defer u.wait.resume()
	n, err := u.read(p)
	switch {
	case u.left >= 0 && u.left == int64(n), u.left < 0 && errors.Is(err, io.EOF):
		u.complete.Store(true)
		setUnread(u.client.Conn(), false)
		return n, io.EOF
	case errors.Is(err, io.EOF):
		// fasthttp tells a body that is cut short like one that is complete.
		err = io.ErrUnexpectedEOF
	}
	if u.left > 0 {
		u.left -= int64(n)
	}
	u.err = err
	return n, err
}

// read looks at ending after it has set its deadline, and end sets its own
// after ending, so that whichever comes first nobody waits for the client.
func (u *upload) read(p []byte) (int, error) {
	if err := u.client.SetReadDeadline(time.Now().Add(u.stall)); err != nil {
		return 0, err
	}
	if u.ending.Load() {
		return 0, errUploadOver
	}
	return u.body.Read(p)
}

// Close does nothing: end does it.
func (*upload) Close() error { return nil }

// end waits until nobody reads, and lets nobody begin. If the body is not
// complete then, the connection is of no more use.
func (u *upload) end() {
	if u.complete.Load() {
		return
	}
	u.ending.Store(true)
	_ = u.client.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, and nobody waits on that
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = errUploadOver
	}
}

// failure is the error of the client's that ended the upload; nil if none did.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if errors.Is(u.err, errUploadOver) {
		return nil
	}
	return u.err
}
