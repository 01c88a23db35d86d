package middleware

import (
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
)

// What the gateway tells the upstream of a verified credential.
const (
	HeaderProjectID = "X-Volcano-Project-Id"
	HeaderRole      = "X-Volcano-Role"
	HeaderKeyID     = "X-Volcano-Key-Id"
	HeaderUserID    = "X-Volcano-User-Id"
)

// owned are the headers that only the gateway may set towards the upstream.
var owned = skeletons(
	HeaderProjectID, HeaderRole, HeaderKeyID, HeaderUserID, HeaderRequestID,
	fiber.HeaderXForwardedFor, fiber.HeaderXForwardedProto, fiber.HeaderXForwardedHost,
	fiber.HeaderForwarded, // says the same in another way, and we do not speak it
)

// isHearsay tells whether a header says where a request comes from, or what it
// was before somebody changed it, in a way that the gateway does not. Only a
// trusted proxy may: some upstreams route by the path in X-Original-URL.
func isHearsay(skeleton string) bool {
	return skeleton == "xrealip" || skeleton == "xrewriteurl" ||
		strings.HasPrefix(skeleton, "xforwarded") || strings.HasPrefix(skeleton, "xoriginal")
}

func skeletons(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[skeleton(name)] = true
	}
	return set
}

// skeleton is what remains of a header's name in an upstream that makes no
// difference between letter cases and takes any sign for any other, as CGI and
// its descendants do with - and _.
func skeleton(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r | 0x20
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return -1
	}, name)
}

// identify tells who sends a request that is to be forwarded; nobody, the zero
// Principal, where that may remain open.
func (f *Forward) identify(c *fiber.Ctx, policy *configs.Policy) (auth.Principal, error) {
	nobody := auth.Principal{}
	if f.settings.ProxyAuth == configs.ProxyAuthOff {
		return nobody, nil
	}
	required := f.settings.ProxyAuth == configs.ProxyAuthRequired
	if len(c.Request().Header.PeekAll(fiber.HeaderAuthorization)) == 0 {
		if required {
			return nobody, unauthorized("The Authorization header is missing; send Bearer and a credential of your project.")
		}
		return nobody, nil
	}
	principal, err := f.locks.authenticate(c, policy)
	switch {
	case err != nil:
		return nobody, err
	case principal.Kind == auth.Platform && required:
		return nobody, unauthorized("This is a platform token, which speaks for no project; a credential of a project is needed here.")
	case principal.Kind == auth.Platform: // even one that names a project
		return nobody, nil
	case !fitsHeader(principal.KeyID) || !fitsHeader(principal.UserID):
		return nobody, unauthorized("Not accepted: the credential's key id (jti) or user id (sub) has characters that no header can carry.")
	}
	return principal, nil
}

// fitsHeader tells whether a value arrives as it is: receivers cut spaces at
// the ends.
func fitsHeader(value string) bool {
	return strings.TrimSpace(value) == value && validValue([]byte(value))
}

// setIdentity tells the upstream who was identified.
func setIdentity(header http.Header, p auth.Principal) {
	if p.Project == uuid.Nil {
		return
	}
	header.Set(HeaderProjectID, p.Project.String())
	header.Set(HeaderRole, p.Kind.String())
	if p.KeyID != "" {
		header.Set(HeaderKeyID, p.KeyID)
	}
	if p.UserID != "" {
		header.Set(HeaderUserID, p.UserID)
	}
}
