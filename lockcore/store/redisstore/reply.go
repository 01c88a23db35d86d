package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// decode reads the script's reply; its form is written in decide.lua.
func decode(reply *redis.Cmd, limit int64) (store.Decision, error) {
	fields, err := reply.StringSlice()
	if err != nil {
		return store.Decision{}, translate(err)
	}
	d, err := parse(fields, limit)
	if err != nil {
		return store.Decision{}, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return d, nil
}

func parse(fields []string, limit int64) (store.Decision, error) {
	if len(fields) != 6 {
		return store.Decision{}, fmt.Errorf("the script's reply has %d fields instead of 6", len(fields))
	}
	verdict, err := lockcore.ParseVerdict(fields[3])
	var numbers [6]int64
	for _, i := range []int{0, 1, 2, 4, 5} {
		n, e := strconv.ParseInt(fields[i], 10, 64)
		numbers[i], err = n, errors.Join(err, e)
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
	return d, nil
}

// translate says what is known of a call that failed. An error that the server
// answered means that nothing was written: the script checks everything before
// its first write, and the server refuses before it or at it. Without an answer
// nothing is known, unless there was no connection to send it on.
func translate(err error) error {
	var answered redis.Error
	switch {
	case errors.Is(err, store.ErrNotApplied): // from dial
		return err
	case errors.As(err, &answered), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", store.ErrNotApplied, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
}
