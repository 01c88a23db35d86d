package middleware

import (
	"errors"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
)

// credential takes the text out of the one Authorization header.
func credential(c *fiber.Ctx) (string, error) {
	values := c.Request().Header.PeekAll(fiber.HeaderAuthorization)
	switch len(values) {
	case 0:
		return "", unauthorized("The Authorization header is missing; send Bearer and a service-role key.")
	case 1:
	default:
		return "", unauthorized("There is more than one Authorization header; send one.")
	}
	scheme, text, found := strings.Cut(string(values[0]), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || text == "" {
		return "", unauthorized("The Authorization header must be Bearer, one space and a service-role key.")
	}
	return text, nil
}

// authenticate says who sent the request, by the policy that the whole request
// is judged by. A revoked key is refused and named all the same, for the audit.
func (l *Locks) authenticate(c *fiber.Ctx, policy *configs.Policy) (auth.Principal, error) {
	text, err := credential(c)
	if err != nil {
		return auth.Principal{}, err
	}
	principal, err := l.Credentials.Verify(text)
	if refusal, ok := errors.AsType[*auth.Refusal](err); ok {
		return auth.Principal{}, unauthorized("Not accepted: " + refusal.Reason + ".")
	}
	switch {
	case err != nil:
		return auth.Principal{}, err
	case policy.Project(principal.Project).Revoked(principal.KeyID):
		return principal, unauthorized("Not accepted: this key was revoked.")
	}
	return principal, nil
}

// permit lets only service-role keys with the permission, of a project that is
// not suspended, touch locks.
func permit(principal auth.Principal, project configs.Project) error {
	const need = "; lock endpoints need a service-role key with the permission locks.manage"
	switch {
	case principal.Kind != auth.ServiceRole:
		return forbidden("This is " + principal.Kind.Describe() + need + ".")
	case !principal.CanManageLocks():
		return forbidden("This is a service-role key without that permission" + need + ".")
	case project.Suspended:
		return forbidden("This project is suspended; its operator can lift that in the policy file.")
	}
	return nil
}
