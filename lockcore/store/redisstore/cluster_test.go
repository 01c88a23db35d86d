package redisstore

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
	"github.com/project-locks/gateway/lockcore/store/storetest"
	"github.com/project-locks/gateway/ratelimit"
)

// clusterScene is a cluster and a client of it for looking.
type clusterScene struct {
	*redistest.Cluster
	client *redis.ClusterClient
}

func newClusterScene(t *testing.T, c *redistest.Cluster) *clusterScene {
	t.Helper()
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return &clusterScene{c, client}
}

func (c *clusterScene) slot(t testing.TB, project uuid.UUID) int {
	t.Helper()
	slot, err := c.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{"+project.String()+"}").Result()
	must(t, err)
	return int(slot)
}

// callerAt is a caller whose project is kept by a node.
func (c *clusterScene) callerAt(t testing.TB, s *Store, node int) *caller {
	t.Helper()
	caller := newCaller(t, s)
	for range 1000 {
		if c.NodeOf(c.slot(t, caller.project)) == node {
			return caller
		}
		caller.project = uuid.New()
	}
	t.Fatalf("no project falls to node %d", node)
	return nil
}

func (c *clusterScene) callers(t testing.TB, s *Store) (all []*caller) {
	t.Helper()
	for node := range c.Nodes {
		all = append(all, c.callerAt(t, s, node))
	}
	return all
}

// One cluster serves all of these, one after the other: the last ones change it.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newClusterScene(t, redistest.StartCluster(t, "--cluster-require-full-coverage", "no"))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *clusterScene)
	}{
		{"conformance", testClusterConformance},
		{"one node that may evict is enough to refuse", testClusterEviction},
		{"a lost script comes back though another node is down", testClusterScriptLost},
		{"a frozen node is not waited for", testClusterFrozenNode},
		{"a slot migration ends by itself", testClusterMigration},
		{"the restart of a node ends by itself", testClusterRestart},
		{"a fail-over ends by itself", testClusterFailOver},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

func testClusterConformance(t *testing.T, c *clusterScene) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s := openWith(t, c.URL(), Cluster, timeout)
		return storetest.Harness{Store: s, SetNow: s.setNow}
	})
}

func testClusterEviction(t *testing.T, c *clusterScene) {
	s := openWith(t, c.URL(), Cluster, timeout)
	must(t, ping(s))
	for i, node := range c.Nodes {
		client := node.Client(t)
		must(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		if err := ping(s); !errors.Is(err, ErrMayEvict) {
			t.Errorf("when node %d may evict: %v", i, err)
		}
		must(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	}
	must(t, ping(s))
}

func testClusterScriptLost(t *testing.T, c *clusterScene) {
	s := openStill(t, c.URL(), Cluster, timeout)
	all := c.callers(t, s)
	for _, caller := range all {
		caller.mustDecide(lockcore.None, "")
	}
	const dead = 2
	c.Nodes[dead].Kill()
	must(t, c.Nodes[0].Client(t).ScriptFlush(t.Context()).Err())
	batch := make([]*store.Call, len(all))
	for i, caller := range all {
		batch[i] = &store.Call{Charge: ratelimit.Charge{Project: caller.project, Limit: 1000}}
	}
	s.run(batch)
	for i, caller := range all {
		caller.account(batch[i].Decision, batch[i].Err)
		if want := i != dead; (batch[i].Err == nil) != want || !want && !errors.Is(batch[i].Err, store.ErrNotApplied) {
			t.Errorf("node %d, of which %d is dead: %v", i, dead, batch[i].Err)
		}
	}
	c.Nodes[dead].Restart(t)
	c.WaitUntilItServes(t)
	c.settled(t, all)
}

// settled holds the callers to their accounts once all of them are served.
func (c *clusterScene) settled(t testing.TB, all []*caller) {
	t.Helper()
	for i, caller := range all {
		caller.recovers()
		t.Logf("project %d: %d calls decided, %d not applied, %d unknown, of which %d were applied", i,
			caller.decided.Load(), caller.notApplied.Load(), caller.unknown.Load(), caller.applied(c.client))
	}
}

func testClusterFrozenNode(t *testing.T, c *clusterScene) {
	s := openStill(t, c.URL(), Cluster, short)
	all := c.callers(t, s)
	for _, caller := range all {
		caller.mustDecide(lockcore.None, "")
	}
	c.Nodes[1].Signal(t, syscall.SIGSTOP)
	for i, caller := range all {
		_, err := caller.call(lockcore.Acquire, "key")
		if want := i != 1; (err == nil) != want {
			t.Errorf("node %d, of which 1 is frozen: %v", i, err)
		}
	}
	if ping(s) == nil {
		t.Error("the store is well, says Ping")
	}
	c.Nodes[1].Signal(t, syscall.SIGCONT)
	c.WaitUntilItServes(t)
	c.settled(t, all)
	must(t, ping(s))
}

func testClusterMigration(t *testing.T, c *clusterScene) {
	s := openStill(t, c.URL(), Cluster, timeout)
	all := c.callers(t, s)
	moved := c.callerAt(t, s, 0)
	all = append(all, moved)
	load := startLoad(t, all...)
	load.settle(t)
	move := c.BeginMove(t, c.slot(t, moved.project), c.Nodes[0], c.Nodes[1])
	if move.Some(t, 1) == 0 {
		t.Fatal("there was nothing to move")
	}
	redistest.Until(t, "the load meets the migration", load.hasFailed)
	move.End(t)
	load.settle(t)
	load.end()
	c.settled(t, all)
	for _, caller := range all[:len(c.Nodes)] {
		if refused := caller.notApplied.Load(); refused > 0 && c.slot(t, caller.project) != c.slot(t, moved.project) {
			t.Errorf("%d calls of another slot were refused: %v", refused, *caller.lastErr.Load())
		}
	}
}

func testClusterRestart(t *testing.T, c *clusterScene) {
	s := openStill(t, c.URL(), Cluster, timeout)
	all := c.callers(t, s)
	load := startLoad(t, all...)
	load.settle(t)
	c.Nodes[1].Kill()
	redistest.Until(t, "the load meets the restart", load.hasFailed)
	c.Nodes[1].Restart(t)
	c.WaitUntilItServes(t)
	load.settle(t)
	load.end()
	c.settled(t, all)
}

func testClusterFailOver(t *testing.T, c *clusterScene) {
	for _, node := range c.Nodes {
		must(t, node.Client(t).ConfigSet(t.Context(), "cluster-node-timeout", "1000").Err())
	}
	replica := c.AddReplica(t, c.Nodes[0], "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
	s := openWith(t, c.URL(), Cluster, timeout) // its own clock: the last token may be lost
	load := startLoad(t, c.callers(t, s)...)
	load.settle(t)
	c.Nodes[0].Kill()
	redistest.Until(t, "the load meets the failure", load.hasFailed)
	redistest.Until(t, "the replica takes over", isPrimary(t, replica))
	load.isServedAgain()
	load.settle(t)
	load.end()
}

// isPrimary fits redistest.Until.
func isPrimary(t testing.TB, server *redistest.Server) func(context.Context) error {
	client := server.Client(t)
	return func(ctx context.Context) error {
		role, err := client.Do(ctx, "role").Slice()
		if err == nil && role[0] != "master" {
			err = errors.New("it is not")
		}
		return err
	}
}

func TestClusterBehindProxies(t *testing.T) {
	t.Parallel()
	c := newClusterScene(t, redistest.StartClusterBehindProxies(t))
	s := openStill(t, c.URL(), Cluster, timeout)
	t.Run("a lost reply is not asked for again", func(t *testing.T) { testClusterReplyLost(t, c, s) })
	t.Run("nor is one of a node that another has named", func(t *testing.T) { testClusterReplyLostAfterRedirect(t, c, s) })
	t.Run("an unreachable node is not waited for", func(t *testing.T) { testClusterUnreachable(t, c, s) })
}

// batch runs calls of one project in one pipeline.
func (c *caller) batch(n int) []*store.Call {
	batch := make([]*store.Call, n)
	for i := range batch {
		batch[i] = &store.Call{Charge: ratelimit.Charge{Project: c.project, Limit: 1000}}
	}
	c.s.run(batch)
	for _, call := range batch {
		c.account(call.Decision, call.Err)
	}
	return batch
}

func isUnknown(call *store.Call) bool { return errors.Is(call.Err, store.ErrUnknown) }

func testClusterReplyLost(t *testing.T, c *clusterScene, s *Store) {
	caller := c.callerAt(t, s, 0)
	caller.mustDecide(lockcore.None, "")
	c.Proxies[0].CutReply(t, "nothing")
	const n = 5
	if batch := caller.batch(n); slices.ContainsFunc(batch, func(call *store.Call) bool { return !isUnknown(call) }) {
		t.Errorf("the replies were lost, but the errors are %v, %v …", batch[0].Err, batch[1].Err)
	}
	caller.recovers()
	if applied := caller.applied(c.client); applied != n {
		t.Errorf("%d calls were carried out %d times", n, applied)
	}
}

func testClusterReplyLostAfterRedirect(t *testing.T, c *clusterScene, s *Store) {
	moved, there := c.callerAt(t, s, 1), c.callerAt(t, s, 2)
	moved.mustDecide(lockcore.None, "") // the store knows where it was
	there.mustDecide(lockcore.None, "") // and is connected to where it will be
	c.BeginMove(t, c.slot(t, moved.project), c.Nodes[1], c.Nodes[2]).End(t)
	c.Proxies[2].CutReply(t, "nothing")
	const n = 5
	if batch := moved.batch(n); slices.ContainsFunc(batch, func(call *store.Call) bool { return !isUnknown(call) }) {
		t.Errorf("the replies were lost, but the errors are %v, %v …", batch[0].Err, batch[1].Err)
	}
	moved.recovers()
	if applied := moved.applied(c.client); applied != n {
		t.Errorf("%d calls were carried out %d times", n, applied)
	}
}

func testClusterUnreachable(t *testing.T, c *clusterScene, s *Store) {
	all := c.callers(t, s)
	c.Proxies[0].Stop()
	for i, caller := range all {
		_, err := caller.call(lockcore.None, "")
		if want := i != 0; (err == nil) != want || !want && !errors.Is(err, store.ErrNotApplied) {
			t.Errorf("node %d, of which 0 is unreachable: %v", i, err)
		}
	}
	c.Proxies[0].Resume(t)
	c.settled(t, all)
}
