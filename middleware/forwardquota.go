package middleware

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/ratelimit"
)

// count counts a request that is to be forwarded, where the project's policy
// limits them. While the store cannot count, a request passes uncounted, unless
// the policy says otherwise: availability of the API behind is worth more than
// its quota, but for lock requests it never is.
func (f *Forward) count(c *fiber.Ctx, p auth.Principal, project configs.Project) error {
	if p.Project == uuid.Nil || project.RequestsPerMinute == 0 {
		return nil
	}
	charge := ratelimit.Charge{Project: p.Project, Counter: ratelimit.Requests, Limit: project.RequestsPerMinute}
	decision, err := f.locks.decide(spanContext(c.Context()), charge, lockcore.Command{Op: lockcore.None})
	if err == nil {
		err := admit(c, decision, CodeForwardLimited, "requests")
		if err != nil {
			f.locks.Refusals.Count(p.Project, project.Name)
		}
		return err
	}
	if project.WhenUnavailable == configs.Refuse {
		return &Problem{
			Status: fiber.StatusServiceUnavailable, Code: CodeUncounted, Cause: err,
			Text: "The quota of this project cannot be counted now; the request was not forwarded. Try again.",
		}
	}
	f.uncounted.Add(1)
	return nil
}

// Uncounted is how many requests were forwarded without being counted although
// the policy limits them.
func (f *Forward) Uncounted() int64 { return f.uncounted.Load() }
