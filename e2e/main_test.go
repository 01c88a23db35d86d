// Package e2e tests the gateway as its users meet it: the real binary, over
// real HTTP, on a real file and a real redis-server, by the real clock.
//
// A test starts a gateway with start, speaks to it through a client, and judges
// what came back. Whatever a test is about, every answer is checked for what
// all answers must have (answer.want), and every process, when its test ends,
// for what all processes must do: stop with exit code 0 on SIGTERM, write one
// JSON line per event, and show no secret (gateway.finish).
//
// Nothing here looks inside: of the gateway's packages the tests use only
// auth.Mint, to sign credentials, and redistest, to run Redis.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// binary is the gateway under test, built with the race detector.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gateway-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary = filepath.Join(dir, "gateway")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", binary, "../cmd/gateway") //nolint:gosec // our own arguments
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the gateway: %v\n%s", err, out)
		return 1
	}
	waitTogether()
	return m.Run()
}

// waitTogether lets several tests run at a time on each processor, unless
// -parallel says otherwise: they wait for leases and minutes to end. With more
// of them answers would be late, and the whole no sooner done.
func waitTogether() {
	const name = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, strconv.Itoa(6*runtime.GOMAXPROCS(0))) // a flag of package testing
	}
}
