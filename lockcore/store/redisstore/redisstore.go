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
	"fmt"
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
	script  atomic.Pointer[redis.Script] // changed by tests only, to move time
	batcher *store.Batcher
}

// Open prepares a client for the server at a redis://, rediss:// or unix:// URL.
// It does not connect: a server that is down now may be up when it is needed.
// timeout bounds each round trip.
func Open(url string, mode Mode, timeout time.Duration) (*Store, error) {
	client, err := connect(url, mode, timeout)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, timeout: timeout}
	s.script.Store(compose(clockScript))
	s.batcher = store.NewBatcher(pipelines, s.run)
	return s, nil
}

func compose(clock string) *redis.Script {
	return redis.NewScript(strings.Join([]string{clock, ratelimit.Script, lockcore.Script, decideScript}, "\n"))
}

// Decide implements store.Store.
func (s *Store) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	return s.batcher.Decide(ctx, charge, command)
}

// Ping implements store.Store. It also refuses a server that may drop locks
// when its memory is full.
func (s *Store) Ping(ctx context.Context) error {
	if err := store.Probe(ctx, s); err != nil {
		return err
	}
	return s.eachMaster(ctx, refuseEviction)
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.batcher.Close()
	return s.client.Close()
}

// run decides a batch in one round trip. Calls that find the script missing
// were not carried out and are sent again once it is loaded.
func (s *Store) run(calls []*store.Call) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	script := s.script.Load()
	missed := s.send(ctx, script, calls)
	if len(missed) == 0 {
		return
	}
	if err := script.Load(ctx, s.client).Err(); err != nil {
		for _, call := range missed {
			call.Err = fmt.Errorf("%w: loading the script: %w", store.ErrNotApplied, err)
		}
		return
	}
	s.send(ctx, script, missed)
}

// send answers the calls, except those it returns: for them the server had no script.
func (s *Store) send(ctx context.Context, script *redis.Script, calls []*store.Call) (missed []*store.Call) {
	pipe := s.client.Pipeline()
	replies := make([]once, len(calls))
	for i, call := range calls {
		replies[i] = evalsha(ctx, script, call)
		_ = pipe.Process(ctx, replies[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	for i, call := range calls {
		call.Decision, call.Err = decode(replies[i].Cmd, call.Charge.Limit)
		if redis.HasErrorPrefix(call.Err, "NOSCRIPT") {
			missed = append(missed, call)
		}
	}
	return missed
}

// once is a command that the client sends again only when the server has said
// that another node must answer it, never because its reply was lost.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

func evalsha(ctx context.Context, script *redis.Script, call *store.Call) once {
	owner := ""
	if call.Command.Owner != uuid.Nil {
		owner = call.Command.Owner.String()
	}
	k := keys(call)
	cmd := redis.NewCmd(ctx, "evalsha", script.Hash(), len(k), k[0], k[1], k[2],
		call.Charge.Limit, call.Command.Op.String(), owner, call.Command.TTL.Milliseconds())
	cmd.SetFirstKeyPos(3) // routes it in a cluster
	return once{cmd}
}

// keys names the records of a call, in one hash slot per project.
func keys(call *store.Call) [3]string {
	project := "{" + call.Charge.Project.String() + "}"
	return [3]string{project + ":quota", project + ":fence", project + ":lease:" + call.Command.Key}
}
