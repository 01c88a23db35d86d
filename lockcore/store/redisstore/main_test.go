package redisstore

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // the client tells of every fault
	code := m.Run()
	if err := leaks(); err != nil {
		fmt.Fprintln(os.Stderr, "after every fault and every Close something goes on:", err)
		code = 1
	}
	os.Exit(code)
}

// leaks waits for goroutines to end: the client looks once a second whether a
// server that was down is back, or whether its own pool is closed.
func leaks() (err error) {
	for deadline := time.Now().Add(timeout + slack); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}
