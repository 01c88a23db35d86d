package middleware

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether the other side of a connection has closed it, or will
// send nothing any more, without reading what it may have sent before.
func hungUp(socket syscall.RawConn) bool { return polled(socket, unix.POLLRDHUP) }

// hasSent tells whether the other side has sent what nobody has read, or has
// hung up.
func hasSent(socket syscall.RawConn) bool { return polled(socket, unix.POLLRDHUP|unix.POLLIN) }

func polled(socket syscall.RawConn, events int16) bool {
	happened := false
	err := socket.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 0) //nolint:gosec // a descriptor is a small number
		happened = err == nil && n > 0
	})
	return happened || err != nil
}
