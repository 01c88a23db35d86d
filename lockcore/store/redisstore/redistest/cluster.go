package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Slots of a cluster.
const Slots = 16384

// Cluster is three primaries with a third of the slots each, and their replicas.
type Cluster struct {
	Nodes    []*Server
	Replicas []*Server
	Proxies  []*Proxy // in front of the nodes, when asked for
}

// StartCluster returns when the cluster serves. args are further redis-server
// options of every node.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 3 {
		c.Nodes = append(c.Nodes, startNode(t, FreeAddr(t), args...))
	}
	c.form(t)
	return c
}

// StartClusterBehindProxies is StartCluster with a proxy in front of each node,
// whose address is the one that the cluster tells its clients.
func StartClusterBehindProxies(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 3 {
		addr := FreeAddr(t)
		proxy := StartProxy(t, addr)
		_, shown, _ := net.SplitHostPort(proxy.Addr)
		c.Proxies = append(c.Proxies, proxy)
		c.Nodes = append(c.Nodes, startNode(t, addr, append([]string{
			"--cluster-announce-port", shown, "--cluster-announce-bus-port", bus(addr),
		}, args...)...))
	}
	c.form(t)
	return c
}

func startNode(t testing.TB, addr string, args ...string) *Server {
	t.Helper()
	s := prepare(t, addr, append([]string{
		"--appendonly", "yes", "--appendfsync", "always",
		"--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--repl-diskless-sync-delay", "0",
	}, args...)...)
	s.Restart(t)
	return s
}

func bus(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // made by FreeAddr
	n, _ := strconv.Atoi(port)
	return strconv.Itoa(n + busOffset)
}

func (c *Cluster) form(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	for i, node := range c.Nodes {
		client := node.Client(t)
		first, last := i*Slots/len(c.Nodes), (i+1)*Slots/len(c.Nodes)-1
		err := errors.Join(
			client.ClusterAddSlotsRange(ctx, first, last).Err(),
			client.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		if i > 0 {
			err = errors.Join(err, meet(ctx, client, c.Nodes[0]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.WaitUntilItServes(t)
}

func meet(ctx context.Context, client *redis.Client, other *Server) error {
	host, port := other.hostPort()
	return client.Do(ctx, "cluster", "meet", host, port, bus(other.Addr)).Err()
}

// WaitUntilItServes waits until all nodes take their part and each knows all
// others as what they are: otherwise they do not serve, or do not vote.
func (c *Cluster) WaitUntilItServes(t testing.TB) {
	t.Helper()
	for _, node := range slices.Concat(c.Nodes, c.Replicas) {
		node.until(t, "serves in its cluster", func(ctx context.Context, client *redis.Client) error {
			info, err := client.ClusterInfo(ctx).Result()
			nodes, more := client.ClusterNodes(ctx).Result()
			if err = errors.Join(err, more); err != nil {
				return err
			}
			all, replicas := len(c.Nodes)+len(c.Replicas), len(c.Replicas)
			if strings.Contains(info, "cluster_state:ok\r") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", Slots)) &&
				strings.Count(nodes, " connected") == all && strings.Count(nodes, "slave ") == replicas &&
				!strings.Contains(nodes, "fail") && !strings.Contains(nodes, "handshake") {
				return nil
			}
			return fmt.Errorf("it says %s %s", info, nodes)
		})
	}
}

// AddReplica gives a primary a replica and returns when it is in step.
func (c *Cluster) AddReplica(t testing.TB, primary *Server, args ...string) *Server {
	t.Helper()
	replica := startNode(t, FreeAddr(t), args...)
	id := primary.NodeID(t)
	if err := meet(context.Background(), replica.Client(t), primary); err != nil {
		t.Fatal(err)
	}
	replica.until(t, "knows "+primary.Addr, func(ctx context.Context, client *redis.Client) error {
		return client.ClusterReplicate(ctx, id).Err()
	})
	replica.until(t, "is in step", func(ctx context.Context, client *redis.Client) error {
		info, err := client.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(info)
		}
		return err
	})
	c.Replicas = append(c.Replicas, replica)
	c.WaitUntilItServes(t)
	return replica
}

// NodeID of a server in its cluster.
func (s *Server) NodeID(t testing.TB) string {
	t.Helper()
	id, err := s.Client(t).Do(context.Background(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// URL for the gateway, in cluster mode.
func (c *Cluster) URL() string {
	addr := func(i int) string {
		if c.Proxies != nil {
			return c.Proxies[i].Addr
		}
		return c.Nodes[i].Addr
	}
	return "redis://" + addr(0) + "?addr=" + addr(1) + "&addr=" + addr(2)
}

// Move is a slot on its way from one primary to another.
type Move struct {
	cluster  *Cluster
	slot     int
	from, to *Server
}

// BeginMove makes a slot migrate: its keys stay where they are, new ones appear
// at to, and commands that need keys on both sides are refused.
func (c *Cluster) BeginMove(t testing.TB, slot int, from, to *Server) *Move {
	t.Helper()
	m := &Move{cluster: c, slot: slot, from: from, to: to}
	m.set(t, to, "importing", from)
	m.set(t, from, "migrating", to)
	return m
}

// Some moves up to n of the keys and returns how many there were.
func (m *Move) Some(t testing.TB, n int) int {
	t.Helper()
	ctx, client := context.Background(), m.from.Client(t)
	keys, err := client.ClusterGetKeysInSlot(ctx, m.slot, n).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		host, port := m.to.hostPort()
		if err := client.Migrate(ctx, host, port, key, 0, patience).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return len(keys)
}

// End moves the remaining keys and makes the slot the other primary's.
func (m *Move) End(t testing.TB) {
	t.Helper()
	for left := 1; left > 0; { // new keys appear at the other primary
		left = m.Some(t, 100)
	}
	for _, node := range append([]*Server{m.to, m.from}, m.cluster.Nodes...) {
		m.set(t, node, "node", m.to)
	}
}

func (m *Move) set(t testing.TB, at *Server, state string, other *Server) {
	t.Helper()
	err := at.Client(t).Do(context.Background(), "cluster", "setslot", m.slot, state, other.NodeID(t)).Err()
	if err != nil {
		t.Fatal(err)
	}
}

// NodeOf is the primary that a slot had at the start.
func (c *Cluster) NodeOf(slot int) int {
	for i := range c.Nodes {
		if slot < (i+1)*Slots/len(c.Nodes) {
			return i
		}
	}
	return len(c.Nodes) - 1
}
