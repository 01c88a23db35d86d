package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mode is how the servers work together.
type Mode string

// The modes.
const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// errURL does not say what is wrong: a slash or a question mark in a password
// makes the rest of it look like a database or an option, to be quoted.
var errURL = errors.New("the Redis URL cannot be used; write redis://user:password@host:6379/0, " +
	"percent-encode what is special in user and password, and add only options that are known")

// connect makes the client. Beside what redis.ParseURL reads, the URL's query
// takes addr (further nodes, repeatable) and, for sentinel, master_name,
// sentinel_username and sentinel_password. Its errors never quote the URL.
func connect(rawURL string, mode Mode, timeout time.Duration) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errURL
	}
	query := u.Query()
	take := func(name string) []string {
		values := query[name]
		query.Del(name)
		return values
	}
	nodes, master := take("addr"), strings.Join(take("master_name"), "")
	username, password := strings.Join(take("sentinel_username"), ""), strings.Join(take("sentinel_password"), "")
	u.RawQuery = query.Encode()
	if (mode == Sentinel) != (master != "") {
		return nil, errors.New("the Redis URL names master_name in its query in sentinel mode, and only there")
	}
	if mode == Single && len(nodes) > 0 {
		return nil, errors.New("the Redis URL names several nodes (addr=): that needs sentinel or cluster mode")
	}
	parsed, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, errURL
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:            append([]string{parsed.Addr}, nodes...),
		IsClusterMode:    mode == Cluster,
		MasterName:       master,
		SentinelUsername: username,
		SentinelPassword: password,
		Username:         parsed.Username,
		Password:         parsed.Password,
		DB:               parsed.DB,
		ClientName:       parsed.ClientName,
		Protocol:         parsed.Protocol,

		Dialer:                dialer(parsed.TLSConfig, timeout),
		DialTimeout:           timeout,
		DialerRetries:         1,
		ReadTimeout:           timeout,
		WriteTimeout:          timeout,
		ContextTimeoutEnabled: true, // otherwise a frozen server holds a call past its deadline
		MaxRetries:            -1,   // a retry may apply a command twice

		// Everything travels in a few pipelines, so one small pool will do. Beside
		// it the client would keep another and dial twice what cannot be reached.
		PoolSize:         2 * pipelines,
		PipelinePoolSize: -1,
		ConnMaxIdleTime:  time.Minute, // what stands between may forget an idle one, and then nothing comes back
		ReadBufferSize:   redis.DefaultPipelineBufferSize,
		WriteBufferSize:  redis.DefaultPipelineBufferSize,

		// Both cost a round trip on every new connection, and older servers refuse them.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}), nil
}

// dialer heeds the context, which the client's own does not with TLS.
func dialer(config *tls.Config, timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	if config == nil {
		return plain.DialContext
	}
	config.ServerName = "" // every node has its own name: the one that is dialed
	return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
}

// ErrMayEvict is a server that drops records when its memory is full.
var ErrMayEvict = errors.New("this Redis may evict locks: set its maxmemory-policy to noeviction")

// judge refuses a server that may evict, and warns of one that a restart empties.
func (s *Store) judge(ctx context.Context, master *redis.Client) error {
	info, err := master.InfoMap(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("asking for the maxmemory-policy: %w", err)
	}
	if policy := info["Memory"]["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		return fmt.Errorf("%w (it is %s)", ErrMayEvict, policy)
	}
	if s.warned.Load() {
		return nil
	}
	if info, err = master.InfoMap(ctx, "persistence").Result(); err != nil {
		return fmt.Errorf("asking whether there is an append-only file: %w", err)
	}
	if info["Persistence"]["aof_enabled"] == "0" && s.warned.CompareAndSwap(false, true) {
		slog.Warn("this Redis forgets leases when it restarts, and then a lock may have two owners: set appendonly to yes")
	}
	return nil
}

func (s *Store) eachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, client)
	default:
		return fmt.Errorf("unexpected Redis client %T", client)
	}
}
