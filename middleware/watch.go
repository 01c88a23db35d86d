package middleware

import (
	"context"
	"net"
	"syscall"
	"time"
)

// How often to look whether a client has left: often at first, and less often
// when an exchange has lasted for a while.
const (
	watchAtFirst = 200 * time.Millisecond
	watchLater   = time.Second
)

// watch calls gone when the client closes its connection, until ctx ends. It
// looks instead of reading, because what the client sends belongs to the
// server, and it begins late, because most exchanges are over by then.
func watch(ctx context.Context, client net.Conn, gone func()) {
	socket, ok := connUnder[syscall.Conn](client)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	w := &watcher{ctx: ctx, client: raw, gone: gone, began: time.Now()}
	timer := time.AfterFunc(watchAtFirst, w.look)
	context.AfterFunc(ctx, func() { timer.Stop() })
}

type watcher struct {
	ctx    context.Context
	client syscall.RawConn
	gone   func()
	began  time.Time
}

func (w *watcher) look() {
	switch {
	case w.ctx.Err() != nil:
	case hungUp(w.client):
		w.gone()
	default:
		next := min(max(watchAtFirst, time.Since(w.began)/10), watchLater)
		time.AfterFunc(next, w.look)
	}
}
