package middleware

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
	"github.com/project-locks/gateway/telemetry"
)

// Locks answers the lock endpoints.
type Locks struct {
	Store       store.Store
	Timeout     time.Duration // of one decision
	Credentials *auth.Cache
	Policy      func() *configs.Policy // in force now
	Audit       *Audit
	Refusals    *telemetry.Refusals
}

// Handle answers requests for one operation.
func (l *Locks) Handle(op lockcore.Op) fiber.Handler {
	return As(op.String(), l.audited(func(c *fiber.Ctx, r *Record) error { return l.serve(c, r, op, nil) }))
}

// Refuse answers requests with a method that a lock endpoint does not know.
// They pass the same checks and count like any invalid request.
func (l *Locks) Refuse(allow string) fiber.Handler {
	refusal := fromServer[fiber.StatusMethodNotAllowed]
	refusal.Status, refusal.Allow = fiber.StatusMethodNotAllowed, allow
	return l.audited(func(c *fiber.Ctx, r *Record) error { return l.serve(c, r, lockcore.None, &refusal) })
}

// audited answers a request and writes its one audit line.
func (l *Locks) audited(serve func(*fiber.Ctx, *Record) error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		r := &Record{Time: time.Now()}
		setUnread(c.Context().Conn(), false)
		handle := Rescue(func(c *fiber.Ctx) error { return serve(c, r) })
		if err := handle(c); err != nil {
			r.Code = problem(err).Code
			if err := WriteError(c, err); err != nil {
				return err
			}
		}
		l.Audit.write(c, r)
		describe(c.Context(), r)
		return nil
	}
}

// serve makes the checks of the protocol in their order, and answers. A request
// known to be refused for what is not yet its turn comes with that refusal.
func (l *Locks) serve(c *fiber.Ctx, r *Record, op lockcore.Op, refusal error) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	r.operation(op, c.Params("key"))
	if err := unambiguous(c); err != nil {
		return err
	}
	if _, err := RequestID(c); err != nil {
		return err
	}
	policy := l.Policy()
	principal, err := l.authenticate(c, policy)
	r.principal(principal)
	if err != nil {
		return err
	}
	project := policy.Project(principal.Project)
	if err := permit(principal, project); err != nil {
		return err
	}
	command, err := parse(c, op)
	r.command(command)
	if refusal == nil {
		refusal = err
	}
	if refusal != nil {
		command = lockcore.Command{Op: lockcore.None}
	}
	charge := ratelimit.Charge{Project: principal.Project, Limit: project.LocksPerMinute}
	sent := time.Now()
	decision, err := l.decide(spanContext(c.Context()), charge, command)
	if err != nil {
		return unavailable(err)
	}
	r.decision(decision)
	if err := admit(c, decision, CodeRateLimited, "lock requests"); err != nil {
		l.Refusals.Count(principal.Project, project.Name)
		return err
	}
	if refusal != nil {
		return refusal
	}
	return answer(c, op, decision, sent)
}

// decide gives the store its time. It does not end when the client leaves: the
// command may be on its way already.
func (l *Locks) decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return l.Store.Decide(ctx, charge, command)
}

// Where a quota stands: on every answer to a request that was counted.
const (
	HeaderRateLimit     = "X-RateLimit-Limit"
	HeaderRateRemaining = "X-RateLimit-Remaining"
	HeaderRateReset     = "X-RateLimit-Reset" // Unix seconds of the window's end
)

// admit writes where the quota of what is counted stands, and refuses past it.
func admit(c *fiber.Ctx, d store.Decision, code, counted string) error {
	c.Set(HeaderRateLimit, strconv.FormatInt(d.Quota.Limit, 10))
	c.Set(HeaderRateRemaining, strconv.FormatInt(d.Quota.Remaining(), 10))
	c.Set(HeaderRateReset, strconv.FormatInt(d.Quota.Reset.Unix(), 10))
	if d.Quota.Admitted {
		return nil
	}
	return &Problem{
		Status: fiber.StatusTooManyRequests, Code: code, RetryAfter: d.Quota.RetryAfter(d.At),
		Text: fmt.Sprintf("The project has used its %d %s of this minute.", d.Quota.Limit, counted),
	}
}

type (
	leaseBody struct {
		ExpiresAt string `json:"expires_at"`
		Fence     int64  `json:"fencing_token"`
	}
	freeBody struct {
		Held bool `json:"held"`
	}
	stateBody struct {
		Held bool `json:"held"`
		leaseBody
	}
)

// answer writes a decision on an admitted, valid request.
func answer(c *fiber.Ctx, op lockcore.Op, d store.Decision, sent time.Time) error {
	o := d.Outcome
	lease := leaseBody{ExpiresAt: timestamp(o.ExpiresAt), Fence: o.Fence}
	switch o.Verdict {
	case lockcore.Granted, lockcore.TakenOver, lockcore.Extended:
		// The store decided after the request was sent, so by its clock it is no later than this.
		if !d.At.Add(time.Since(sent)).Before(o.ExpiresAt) {
			return unavailable(fmt.Errorf("%w: its answer came when the lease had ended", store.ErrUnknown))
		}
		status := fiber.StatusOK
		if op == lockcore.Acquire {
			status = fiber.StatusCreated
		}
		return c.Status(status).JSON(lease)
	case lockcore.Released:
		c.Status(fiber.StatusNoContent)
		return nil
	case lockcore.Observed:
		if !o.Held() {
			return c.JSON(freeBody{})
		}
		return c.JSON(stateBody{Held: true, leaseBody: lease})
	case lockcore.LockHeld:
		return &Problem{
			Status: fiber.StatusConflict, Code: CodeLockHeld,
			Text:        "Another owner holds this lock.",
			AvailableAt: timestamp(o.AvailableAt()),
			RetryAfter:  ratelimit.CeilSeconds(o.AvailableAt().Sub(d.At)),
		}
	case lockcore.OwnershipLost:
		return &Problem{
			Status: fiber.StatusConflict, Code: CodeOwnershipLost,
			Text: "This lock token does not own the lock, or its lease can no longer be extended: stop the work it protects.",
		}
	case lockcore.Nothing:
	}
	return errors.New("the store answered a command with nothing")
}

// timestamp writes a moment as the protocol does: RFC 3339, UTC, milliseconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
