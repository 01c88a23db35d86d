package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinels call the primary.
const MasterName = "locks"

// Sentinels is a primary with one replica, watched by three sentinels of which
// two decide.
type Sentinels struct {
	Primary, Replica *Server // by the roles at the start
	Watch            []*Server
}

// StartSentinels returns when the sentinels are able to fail over.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Primary: Start(t, "--repl-diskless-sync-delay", "0")}
	host, port := s.Primary.hostPort()
	s.Replica = Start(t, "--repl-diskless-sync-delay", "0", "--replicaof", host+" "+port)
	addrs := []string{FreeAddr(t), FreeAddr(t), FreeAddr(t)}
	for i, addr := range addrs {
		watch := prepare(t, addr)
		config := filepath.Join(watch.dir, "sentinel.conf")
		if err := os.WriteFile(config, []byte(s.config(addrs, i)), 0o600); err != nil {
			t.Fatal(err)
		}
		watch.args = append([]string{config, "--sentinel"}, watch.args...)
		watch.Restart(t)
		s.Watch = append(s.Watch, watch)
	}
	for _, watch := range s.Watch {
		watch.until(t, "can fail over", canFailOver)
	}
	return s
}

// config tells a sentinel of everybody: finding one another takes seconds.
func (s *Sentinels) config(addrs []string, self int) string {
	address := func(addr string) string { return strings.ReplaceAll(addr, ":", " ") }
	id := func(i int) string { return strings.Repeat(fmt.Sprint(i+1), 40) }
	lines := []string{
		"sentinel myid " + id(self),
		"sentinel monitor " + MasterName + " " + address(s.Primary.Addr) + " 2",
		"sentinel down-after-milliseconds " + MasterName + " 500",
		"sentinel failover-timeout " + MasterName + " 5000",
		"sentinel known-replica " + MasterName + " " + address(s.Replica.Addr),
	}
	for i, addr := range addrs {
		if i != self {
			lines = append(lines, "sentinel known-sentinel "+MasterName+" "+address(addr)+" "+id(i))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func canFailOver(ctx context.Context, client *redis.Client) error {
	if err := client.Do(ctx, "sentinel", "ckquorum", MasterName).Err(); err != nil {
		return err
	}
	replies, err := client.Do(ctx, "sentinel", "replicas", MasterName).Slice()
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if replica, ok := reply.(map[any]any); ok && replica["flags"] == "slave" && replica["master-link-status"] == "ok" {
			return nil
		}
	}
	return errors.New("there is no replica in step")
}

// URL for the gateway, in sentinel mode.
func (s *Sentinels) URL() string {
	query := url.Values{"master_name": {MasterName}}
	for _, watch := range s.Watch[1:] {
		query.Add("addr", watch.Addr)
	}
	return s.Watch[0].URL() + "?" + query.Encode()
}
