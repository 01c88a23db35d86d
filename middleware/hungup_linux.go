package middleware

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether the other side of a connection has closed it, or will
// send nothing any more, without reading what it may have sent before.
func hungUp(socket syscall.RawConn) bool {
	closed := false
	err := socket.Control(func(fd uintptr) {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor is a small number
		n, err := unix.Poll(events, 0)
		closed = err == nil && n > 0
	})
	return closed || err != nil
}
