package middleware

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// How often to look whether a client has left: often at first, and less often
// when an exchange has lasted for a while.
const (
	watchAtFirst = 200 * time.Millisecond
	watchLater   = time.Second
)

// watch notices when a client closes its connection. It looks instead of
// reading, because what the client sends belongs to the server, and it begins
// late, because most exchanges are over by then.
type watch struct {
	client syscall.RawConn
	gone   func()
	began  time.Time

	mu    sync.Mutex
	over  bool
	timer *time.Timer
}

// newWatch calls gone when the client has left.
func newWatch(client net.Conn, gone func()) *watch {
	w := &watch{gone: gone, began: time.Now()}
	if socket, ok := connUnder[syscall.Conn](client); ok {
		w.client, _ = socket.SyscallConn() // fails on a closed connection, which others will notice
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = w.client == nil
	w.timer = time.AfterFunc(watchAtFirst, w.look)
	return w
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case hungUp(w.client):
		w.over = true
		w.gone()
	default:
		w.timer.Reset(min(max(watchAtFirst, time.Since(w.began)/10), watchLater))
	}
}

// end ends the watch.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
