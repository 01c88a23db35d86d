//go:build !linux

package middleware

import "syscall"

// hungUp cannot tell here. A client that leaves is noticed when the response is
// written to it.
func hungUp(syscall.RawConn) bool { return false }

// hasSent cannot tell here either.
func hasSent(syscall.RawConn) bool { return false }
