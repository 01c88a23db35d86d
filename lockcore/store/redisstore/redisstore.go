// Package redisstore keeps locks in Redis, shared by any number of gateways.
//
// One script decides: clock.lua, window.lua, lease.lua and decide.lua joined
// into one, called with one EVALSHA per request. It is atomic, and its clock is
// the server's. Calls that wait together travel in one pipeline.
//
// The client never repeats a command by itself: a call whose reply was lost may
// have been carried out, and only its caller knows that repeating it is safe.
package redisstore

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

var _ store.Store = (*Store)(nil)

var (
	//go:embed clock.lua
	clockScript string
	//go:embed decide.lua
	decideScript string
)

// pipelines is how many batches may be on their way at a time: while one is
// being answered the other fills.
const pipelines = 2

// Store is the store.Store over Redis.
type Store struct {
	client  redis.UniversalClient
	timeout time.Duration
	script  atomic.Pointer[script] // changed by tests only, to move time
	batcher *store.Batcher
	warned  atomic.Bool // that a server keeps nothing on its disk
}

// Open prepares a client for the server at a redis://, rediss:// or unix:// URL.
// It does not connect: a server that is down now may be up when it is needed.
// timeout is how long callers wait; what they wait for gives up a little
// earlier, so that they hear what became of it.
func Open(url string, mode Mode, timeout time.Duration) (*Store, error) {
	timeout -= timeout / 10
	client, err := connect(url, mode, timeout)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, timeout: timeout}
	s.script.Store(compose(clockScript))
	s.batcher = store.NewBatcher(pipelines, s.run)
	return s, nil
}

type script struct {
	*redis.Script // knows the hash
	source        string
}

func compose(clock string) *script {
	source := strings.Join([]string{clock, ratelimit.Script, lockcore.Script, decideScript}, "\n")
	return &script{redis.NewScript(source), source}
}

// Decide implements store.Store.
func (s *Store) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	return s.batcher.Decide(ctx, charge, command)
}

// Ping implements store.Store. It also refuses a server that may drop locks
// when its memory is full, and warns once of one that keeps nothing on its disk.
func (s *Store) Ping(ctx context.Context) error {
	if err := store.Probe(ctx, s); err != nil {
		return err
	}
	return s.eachMaster(ctx, s.judge)
}

// Batches tells how calls were grouped.
func (s *Store) Batches() store.BatchStats { return s.batcher.Stats() }

// Pool tells of the connections, in a cluster of those to all nodes.
func (s *Store) Pool() *redis.PoolStats { return s.client.PoolStats() }

// Close implements store.Store. Closing the connections first ends what waits
// for a server that does not answer.
func (s *Store) Close() error {
	err := s.client.Close()
	s.batcher.Close()
	return err
}

// run decides a batch in one round trip. Calls that find the script missing
// were not carried out and are sent again with the whole script, which the
// server then keeps. It goes where the call goes: loading it ahead would need
// every node of a cluster to be up.
func (s *Store) run(calls []*store.Call) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	script := s.script.Load()
	if missed := s.send(ctx, calls, "evalsha", script.Hash()); len(missed) > 0 {
		s.send(ctx, missed, "eval", script.source)
	}
	s.lookAround(ctx, calls)
}

// lookAround has a cluster's client ask who has which slots now when a call
// failed. By itself it asks only nodes that answer: the one that replaces a
// dead node would not be found for a minute.
func (s *Store) lookAround(ctx context.Context, calls []*store.Call) {
	cluster, is := s.client.(*redis.ClusterClient)
	failed := func(call *store.Call) bool { return call.Err != nil }
	if is && slices.ContainsFunc(calls, failed) {
		cluster.ReloadState(ctx)
	}
}

// send answers the calls. It returns those for which the server had no script.
func (s *Store) send(ctx context.Context, calls []*store.Call, command, script string) (missed []*store.Call) {
	pipe := s.client.Pipeline()
	attempts := make([]*attempt, len(calls))
	for i, call := range calls {
		attempts[i] = newAttempt(ctx, call, command, script)
		_ = pipe.Process(ctx, attempts[i]) // only queues it
	}
	_, err := pipe.Exec(ctx)
	for i, call := range calls {
		call.Decision, call.Err = attempts[i].decision(call.Charge.Limit, err)
		if redis.HasErrorPrefix(call.Err, "NOSCRIPT") {
			missed = append(missed, call)
		}
	}
	return missed
}

// attempt is a call on its way. The client sends it again only when the server
// has said that another node must answer it, never because its reply was lost.
type attempt struct {
	*redis.Cmd
	sent bool // or at least begun: the server may have it
}

// NoRetry is how the client asks.
func (*attempt) NoRetry() bool { return true }

func newAttempt(ctx context.Context, call *store.Call, command, script string) *attempt {
	owner := ""
	if call.Command.Owner != uuid.Nil {
		owner = call.Command.Owner.String()
	}
	k, a := keys(call), &attempt{}
	a.Cmd = redis.NewCmd(ctx, command, script, len(k), k[0], k[1], k[2],
		call.Charge.Limit, call.Command.Op.String(), owner, lastArgument{a, call.Command.TTL})
	a.SetFirstKeyPos(3) // routes it in a cluster
	return a
}

// lastArgument is the ttl. The client asks for its bytes when it writes the
// command into a connection, which is the one sure sign that it may have left.
type lastArgument struct {
	attempt *attempt
	ttl     time.Duration
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (l lastArgument) MarshalBinary() ([]byte, error) {
	l.attempt.sent = true
	l.attempt.SetErr(nil) // of an earlier node: the client does not put a lost reply over it
	return strconv.AppendInt(nil, l.ttl.Milliseconds(), 10), nil
}

// quotas are the names of the counters' records.
var quotas = [...]string{ratelimit.Locks: ":quota", ratelimit.Requests: ":requests"}

// keys names the records of a call, in one hash slot per project.
func keys(call *store.Call) [3]string {
	project := "{" + call.Charge.Project.String() + "}"
	return [3]string{project + quotas[call.Charge.Counter], project + ":fence", project + ":lease:" + call.Command.Key}
}
