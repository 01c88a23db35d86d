package redisstore

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
	"github.com/project-locks/gateway/lockcore/store/storetest"
)

// BenchmarkDecide compares the store with what redis-benchmark gets out of the
// same server with the same script. Compare within one run.
func BenchmarkDecide(b *testing.B) {
	server := redistest.Start(b, "--appendonly", "no")
	s, client := openStore(b, server.URL()), server.Client(b)
	b.Run("store at 64 callers", func(b *testing.B) { storetest.Bench(b, s) })
	host, port, err := net.SplitHostPort(server.Addr)
	must(b, err)
	script := s.script.Load()
	must(b, client.ScriptLoad(context.Background(), script.source).Err())
	for _, pipeline := range []string{"1", "16"} {
		b.Run("redis-benchmark -c 64 -P "+pipeline, func(b *testing.B) {
			project := "{" + uuid.NewString() + "}"
			args := []string{
				"-h", host, "-p", port, "-c", "64", "-P", pipeline, "-n", strconv.Itoa(b.N), "-r", "10000", "-q",
				"EVALSHA", script.Hash(), "3", project + ":quota", project + ":fence", project + ":lease:__rand_int__",
				strconv.Itoa(storetest.BenchLimit), "acquire", storetest.Me.String(), "60000",
			}
			out, err := exec.CommandContext(context.Background(), "redis-benchmark", args...).CombinedOutput() //nolint:gosec // our own arguments
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		})
	}
}
