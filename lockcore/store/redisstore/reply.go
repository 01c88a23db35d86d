package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// decision is what came back. batch is the error of the whole batch, which is
// the only trace of a handshake that the server refused.
func (a *attempt) decision(limit int64, batch error) (store.Decision, error) {
	if !a.sent {
		return store.Decision{}, fmt.Errorf("%w: %w", store.ErrNotApplied, cmp.Or(a.Err(), batch, errNotSent))
	}
	fields, err := a.StringSlice()
	if err != nil {
		return store.Decision{}, translate(err)
	}
	d, err := parse(fields, limit)
	if err != nil {
		return store.Decision{}, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return d, nil
}

var errNotSent = errors.New("it was not sent")

// translate says what is known of a command that was sent and failed. An error
// that the server answered means that nothing was written: the script checks
// everything before its first write, and the server refuses before it or at it.
// Without an answer nothing is known.
func translate(err error) error {
	var answered redis.Error
	switch {
	case !errors.As(err, &answered), errors.Is(err, redis.Nil): // the script always returns something
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	case strings.Contains(err.Error(), "DAMAGED"), strings.Contains(err.Error(), "WRONGTYPE"): // from the script's checks
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	case redis.HasErrorPrefix(err, "TRYAGAIN"):
		return fmt.Errorf("%w: %w", store.ErrMoving, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrNotApplied, err)
	}
}

// parse reads the script's reply, whose form is written in decide.lua, and
// takes nothing that the rules cannot have said: what is between here and the
// script may be broken too.
func parse(fields []string, limit int64) (store.Decision, error) {
	if len(fields) != 6 {
		return store.Decision{}, fmt.Errorf("the script's reply has %d fields instead of 6", len(fields))
	}
	verdict, err := lockcore.ParseVerdict(fields[3])
	var numbers [6]int64
	for _, i := range []int{0, 1, 2, 4, 5} {
		n, e := strconv.ParseUint(fields[i], 10, 53)
		numbers[i], err = int64(n), errors.Join(err, e)
	}
	if err != nil {
		return store.Decision{}, fmt.Errorf("the script's reply: %w", err)
	}
	now := time.UnixMicro(numbers[0]).UTC()
	d := store.Decision{
		At:      now,
		Quota:   ratelimit.NewResult(numbers[1] == 1, limit, numbers[2], now),
		Outcome: lockcore.Outcome{Verdict: verdict, Fence: numbers[4]},
	}
	if numbers[5] != 0 {
		d.Outcome.ExpiresAt = time.UnixMilli(numbers[5]).UTC()
	}
	if numbers[0] == 0 || numbers[1] > 1 || !countable(d.Quota) || !tellable(d) {
		return store.Decision{}, fmt.Errorf("the script's reply makes no sense: %q at limit %d", fields, limit)
	}
	return d, nil
}

// countable reports whether the quota rule can have counted to r.
func countable(r ratelimit.Result) bool {
	if r.Admitted {
		return 1 <= r.Used && r.Used <= r.Limit
	}
	return r.Used >= r.Limit
}

// tellable reports whether the lease rule can have told this at d.At: of a
// whole lease or none, as the verdict demands, and one that has not ended.
func tellable(d store.Decision) bool {
	o := d.Outcome
	if o.Held() != (o.Fence != 0) || !d.Quota.Admitted && o.Verdict != lockcore.Nothing {
		return false
	}
	switch o.Verdict {
	case lockcore.Granted, lockcore.TakenOver, lockcore.Extended:
		return o.ExpiresAt.After(d.At)
	case lockcore.LockHeld:
		return o.AvailableAt().After(d.At)
	case lockcore.Observed:
		return !o.Held() || o.AvailableAt().After(d.At)
	case lockcore.Nothing, lockcore.Released, lockcore.OwnershipLost:
		return !o.Held()
	}
	return false
}
