package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/storetest"
)

// answer is an error that the server has written.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestAFailureSaysWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		sent    bool
		reply   any // an error, or what the server returned
		batch   error
		want    error
		damaged bool
	}{
		{name: "it never left", want: store.ErrNotApplied},
		{name: "it never left, as the batch says", batch: answer("WRONGPASS"), want: store.ErrNotApplied},
		{name: "it never left, whatever is in the way", reply: io.EOF, want: store.ErrNotApplied},
		{name: "the reply was lost", sent: true, reply: io.EOF, want: store.ErrUnknown},
		{name: "the reply was late", sent: true, reply: context.DeadlineExceeded, want: store.ErrUnknown},
		{name: "there is no reply at all", sent: true, want: store.ErrUnknown},
		{name: "the reply is nil", sent: true, reply: redis.Nil, want: store.ErrUnknown},
		{name: "the reply is of another kind", sent: true, reply: "OK", want: store.ErrUnknown},
		{name: "the reply holds other things", sent: true, reply: []any{int64(1), nil, "", "", "", ""}, want: store.ErrUnknown},
		{name: "the reply is short", sent: true, reply: []any{"1", "1"}, want: store.ErrUnknown},
		{name: "the reply makes no sense", sent: true, reply: []any{"1", "2", "1", "nothing", "0", "0"}, want: store.ErrUnknown},
		{name: "the server refused", sent: true, reply: answer("OOM command not allowed"), want: store.ErrNotApplied},
		{name: "the server refused everybody", sent: true, reply: answer("ERR max number of clients reached"), want: store.ErrNotApplied},
		{name: "another node has the key", sent: true, reply: answer("MOVED 1 127.0.0.1:1"), want: store.ErrNotApplied},
		{name: "the script refused a record", sent: true, reply: answer("ERR DAMAGED lease record: fence is not"), want: store.ErrNotApplied, damaged: true},
		{name: "the script met another type", sent: true, reply: answer("WRONGTYPE Operation against"), want: store.ErrNotApplied, damaged: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &attempt{Cmd: redis.NewCmd(t.Context()), sent: test.sent}
			if err, is := test.reply.(error); is {
				a.SetErr(err)
			} else if test.reply != nil {
				a.SetVal(test.reply)
			}
			d, err := a.decision(10, test.batch)
			if d != (store.Decision{}) {
				t.Errorf("it comes with the decision %+v", d)
			}
			if !errors.Is(err, test.want) || errors.Is(err, store.ErrNotApplied) == errors.Is(err, store.ErrUnknown) {
				t.Errorf("error %q, want it to be %q and nothing else", err, test.want)
			}
			if errors.Is(err, store.ErrDamaged) != test.damaged {
				t.Errorf("error %q, want it to be about one project: %v", err, test.damaged)
			}
			if test.batch != nil && !errors.Is(err, test.batch) {
				t.Errorf("error %q does not say why: %q", err, test.batch)
			}
		})
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		"4503599627370497 1 1 granted 4503599627370497 4503599632370",
		"4503599627370497 1 1 taken_over 4503599627370497 4503599632370",
		"4503599627370497 1 1 extended 4503599627370496 4503599632370",
		"4503599627370497 1 10 lock_held 1 4503599627370",
		"4503599627370497 1 2 observed 0 0",
		"4503599627370497 1 2 observed 7 4503599699999",
		"4503599627370497 1 3 released 0 0",
		"4503599627370497 1 4 lock_ownership_lost 0 0",
		"4503599627370497 0 10 nothing 0 0",
		"4503599627370497 1 1 nothing 0 0",
		"0 1 1 nothing 0 0", "-1 1 1 nothing 0 0", "9007199254740992 1 1 nothing 0 0",
		"1 2 1 nothing 0 0", "1 2 10 nothing 0 0", "1 1 0 nothing 0 0", "1 1 11 nothing 0 0", "1 0 9 nothing 0 0", "1 0 10 released 0 0",
		"1 1 1 granted 0 0", "1 1 1 granted 1 0", "1 1 1 taken_over 0 0", "1 1 1 extended 0 0", "1 1 1 granted 0 99999", "9999999 1 1 granted 1 9999", "1 1 1 released 1 99999",
		"9007199254740991 1 1 lock_held 1 1", "1 1 1 stolen 0 0", "4.5e+15 1 1 nothing 0 0", "+1 1 1 nothing 0 0", "", "1 1 1 nothing 0 0 0",
	} {
		f.Add(seed, int64(10))
	}
	f.Fuzz(func(t *testing.T, reply string, limit int64) {
		fields := strings.Split(reply, " ")
		d, err := parse(fields, limit)
		if err != nil {
			if d != (store.Decision{}) {
				t.Fatalf("an error comes with the decision %+v", d)
			}
			return
		}
		// What the script would have to write for this decision is what it wrote.
		expires := int64(0)
		if d.Outcome.Held() {
			expires = d.Outcome.ExpiresAt.UnixMilli()
		}
		admitted := map[bool]int{true: 1}[d.Quota.Admitted]
		back := fmt.Sprintf("%d %d %d %v %d %d", d.At.UnixMicro(), admitted, d.Quota.Used, d.Outcome.Verdict, d.Outcome.Fence, expires)
		for i, field := range strings.Split(back, " ") {
			if got := fields[i]; got != field && strings.TrimLeft(got, "0") != strings.TrimLeft(field, "0") {
				t.Fatalf("%q was read as %q", reply, back)
			}
		}
		const digits = 1<<53 - 1
		o, q := d.Outcome, d.Quota
		for name, sane := range map[string]bool{
			"the moment is after 1970":                   d.At.UnixMicro() > 0 && d.At.UnixMicro() <= digits,
			"the count is a count":                       q.Used >= 0 && q.Used <= digits,
			"admitted within the limit, refused past it": q.Admitted && q.Used > 0 && q.Used <= q.Limit || !q.Admitted && q.Used >= q.Limit,
			"the limit is ours":                          q.Limit == limit,
			"the window contains the moment":             q.Reset.After(d.At),
			"the token is a token":                       o.Fence >= 0 && o.Fence <= digits,
			"a token has an expiry, an expiry a token":   (o.Fence > 0) == o.Held(),
			"what is not admitted is not carried out":    q.Admitted || o == lockcore.Outcome{},
			"what is given is held":                      !storetest.Gives(o.Verdict) || o.ExpiresAt.After(d.At),
			"what is refused is another's":               o.Verdict != lockcore.LockHeld || o.Held(),
			"what is released is told of no more":        o.Verdict != lockcore.Released || !o.Held(),
			"what is told is not over":                   !o.Held() || o.AvailableAt().After(d.At),
		} {
			if !sane {
				t.Fatalf("%q was accepted, although it must hold that %s", reply, name)
			}
		}
	})
}
