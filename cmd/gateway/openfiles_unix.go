//go:build linux || darwin

package main

import (
	"math"
	"syscall"
)

// openFiles is how many files and connections the process may have open. Go
// has raised the limit to what the system allows.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(limit.Cur, math.MaxInt32))
}
