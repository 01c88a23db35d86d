package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
	"github.com/project-locks/gateway/lockcore/store/storetest"
	"github.com/project-locks/gateway/ratelimit"
)

const timeout = 2 * time.Second

func openStore(t testing.TB, url string) *Store {
	t.Helper()
	return openWith(t, url, Single, timeout)
}

// setNow joins another clock into the script: one that stands still at now.
func (s *Store) setNow(now time.Time) {
	s.script.Store(compose(fmt.Sprintf("local function clock() return %d end", now.UnixMicro())))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s := openStore(t, server.URL())
		return storetest.Harness{Store: s, SetNow: s.setNow}
	})
}

func TestLuaAnswersTheLeaseCasesAsGoDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := openStore(t, server.URL()), server.Client(t)
	for _, c := range storetest.StepCases(t, "../../testdata/step.json") {
		t.Run(c.Name, func(t *testing.T) {
			call := &store.Call{Charge: ratelimit.Charge{Project: uuid.New(), Limit: 10}, Command: c.Command}
			writeState(t, client, keys(call), c.Before)
			s.setNow(c.Now)
			got, err := s.Decide(t.Context(), call.Charge, call.Command)
			if err != nil {
				t.Fatal(err)
			}
			if got.Outcome != c.Outcome {
				t.Errorf("outcome %+v, want %+v", got.Outcome, c.Outcome)
			}
			if after := readState(t, client, keys(call)); after != c.After {
				t.Errorf("state after %+v, want %+v", after, c.After)
			}
		})
	}
}

func TestLuaAnswersTheQuotaCasesAsGoDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := openStore(t, server.URL()), server.Client(t)
	for _, c := range storetest.TakeCases(t, "../../../ratelimit/testdata/window.json") {
		t.Run(c.Name, func(t *testing.T) {
			call := &store.Call{Charge: ratelimit.Charge{Project: uuid.New(), Limit: c.Limit}}
			quota := keys(call)[0]
			if c.Before != (ratelimit.Window{}) {
				must(t, client.Set(t.Context(), quota, windowText(c.Before), 0).Err())
			}
			s.setNow(c.Now)
			got, err := s.Decide(t.Context(), call.Charge, call.Command)
			if err != nil {
				t.Fatal(err)
			}
			if want := ratelimit.NewResult(c.Admitted, c.Limit, c.Used, c.Now); got.Quota != want {
				t.Errorf("result %+v, want %+v", got.Quota, want)
			}
			if after := client.Get(t.Context(), quota).Val(); after != windowText(c.After) {
				t.Errorf("window after %q, want %q", after, windowText(c.After))
			}
			if left := client.PTTL(t.Context(), quota).Val(); left <= 0 || left > ratelimit.Length {
				t.Errorf("the quota record expires in %v", left)
			}
		})
	}
}

func TestAWarmRequestIsOneEvalsha(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := openStore(t, server.URL()), server.Client(t)
	charge := ratelimit.Charge{Project: uuid.New(), Limit: 1000}
	acquire := lockcore.Command{Op: lockcore.Acquire, Key: "key", Owner: storetest.Me, TTL: lockcore.MinTTL}
	for range 2 { // warm: connected, script loaded
		decide(t, s, charge, acquire)
	}
	must(t, client.ConfigResetStat(t.Context()).Err())
	const requests = 25
	for range requests {
		decide(t, s, charge, acquire)
	}
	stats, err := client.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for name, values := range stats["Commandstats"] {
		switch name {
		case "cmdstat_evalsha":
			if !strings.HasPrefix(values, fmt.Sprintf("calls=%d,", requests)) {
				t.Errorf("EVALSHA %s, want %d calls", values, requests)
			}
		case "cmdstat_config|resetstat", "cmdstat_info", // this test's own
			"cmdstat_time", "cmdstat_get", "cmdstat_set", "cmdstat_hmget", "cmdstat_hset", "cmdstat_pexpireat": // the script's
		default:
			sent = append(sent, name)
		}
	}
	if len(sent) > 0 {
		t.Errorf("beside EVALSHA the gateway sent %v", sent)
	}
}

func TestRecordsExpireByThemselves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := openStore(t, server.URL()), server.Client(t)
	call := &store.Call{
		Charge:  ratelimit.Charge{Project: uuid.New(), Limit: 10},
		Command: lockcore.Command{Op: lockcore.Acquire, Key: "key", Owner: storetest.Me, TTL: lockcore.MinTTL},
	}
	d := decide(t, s, call.Charge, call.Command)
	for i, want := range []struct{ expires bool }{{true}, {false}, {true}} {
		key := keys(call)[i]
		if got := client.PTTL(t.Context(), key).Val() > 0; got != want.expires {
			t.Errorf("%s expires: %v, want %v", key, got, want.expires)
		}
	}
	at := client.PExpireTime(t.Context(), keys(call)[2]).Val()
	if want := d.Outcome.AvailableAt().Add(lockcore.Memory).UnixMilli(); at.Milliseconds() != want {
		t.Errorf("the lease record goes at %d, want E + grace + memory = %d", at.Milliseconds(), want)
	}
}

func TestDamagedRecordsFailClosedBeforeAnyWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := openStore(t, server.URL()), server.Client(t)
	for name, damage := range map[string]func(ctx context.Context, keys [3]string) error{
		"quota is not a window": func(ctx context.Context, k [3]string) error { return client.Set(ctx, k[0], "seven", 0).Err() },
		"quota of another type": func(ctx context.Context, k [3]string) error { return client.LPush(ctx, k[0], "x").Err() },
		"token is not a number": func(ctx context.Context, k [3]string) error { return client.Set(ctx, k[1], "4.5e+15", 0).Err() },
		"token is above 2^53": func(ctx context.Context, k [3]string) error {
			return client.Set(ctx, k[1], "9007199254740992", 0).Err()
		},
		"lease lacks its deadline": func(ctx context.Context, k [3]string) error {
			return client.HSet(ctx, k[2], "owner", "x", "fence", "1", "expires", "2").Err()
		},
		"lease lacks its owner": func(ctx context.Context, k [3]string) error {
			return client.HSet(ctx, k[2], "fence", "1", "expires", "2", "deadline", "3").Err()
		},
		"lease of another type": func(ctx context.Context, k [3]string) error { return client.Set(ctx, k[2], "x", 0).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			call := &store.Call{
				Charge:  ratelimit.Charge{Project: uuid.New(), Limit: 10},
				Command: lockcore.Command{Op: lockcore.Acquire, Key: "key", Owner: storetest.Me, TTL: lockcore.MinTTL},
			}
			must(t, damage(t.Context(), keys(call)))
			existing := client.Exists(t.Context(), records(call)...).Val()
			if d, err := s.Decide(t.Context(), call.Charge, call.Command); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("over a damaged record: decision %+v, error %v; want %q", d, err, store.ErrDamaged)
			}
			if got := client.Exists(t.Context(), records(call)...).Val(); got != existing {
				t.Errorf("%d records exist after the failure, %d before", got, existing)
			}
		})
	}
}

func decide(t testing.TB, s *Store, charge ratelimit.Charge, command lockcore.Command) store.Decision {
	t.Helper()
	d, err := s.Decide(context.Background(), charge, command)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func records(call *store.Call) []string {
	k := keys(call)
	return k[:]
}

func windowText(w ratelimit.Window) string { return fmt.Sprintf("%d:%d", w.Start.UnixMicro(), w.Count) }

func writeState(t *testing.T, client *redis.Client, keys [3]string, s lockcore.State) {
	t.Helper()
	if s.LastFence != 0 {
		must(t, client.Set(t.Context(), keys[1], s.LastFence, 0).Err())
	}
	if l := s.Lease; l != (lockcore.Lease{}) {
		must(t, client.HSet(t.Context(), keys[2], "owner", l.Owner.String(), "fence", l.Fence,
			"expires", l.ExpiresAt.UnixMilli(), "deadline", l.Deadline.UnixMilli()).Err())
	}
}

func readState(t *testing.T, client *redis.Client, keys [3]string) lockcore.State {
	t.Helper()
	var s lockcore.State
	if text, err := client.Get(t.Context(), keys[1]).Result(); err == nil {
		s.LastFence = number(t, text)
	}
	if r := client.HGetAll(t.Context(), keys[2]).Val(); len(r) > 0 {
		s.Lease = lockcore.Lease{
			Owner: uuid.MustParse(r["owner"]), Fence: number(t, r["fence"]),
			ExpiresAt: time.UnixMilli(number(t, r["expires"])).UTC(), Deadline: time.UnixMilli(number(t, r["deadline"])).UTC(),
		}
	}
	return s
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("a record holds %q where digits belong", text)
	}
	return n
}
