package auth_test

import (
	"testing"

	"github.com/project-locks/gateway/auth"
)

func TestOnlyAServiceRoleKeyWithThePermissionManagesLocks(t *testing.T) {
	for name, c := range map[string]struct {
		kind        auth.Kind
		permissions []string
		want        bool
	}{
		"service role, everything":              {auth.ServiceRole, []string{"*"}, true},
		"service role, locks.manage":            {auth.ServiceRole, []string{"locks.manage"}, true},
		"service role, locks.manage among more": {auth.ServiceRole, []string{"files.read", "locks.manage"}, true},
		"service role, everything among more":   {auth.ServiceRole, []string{"files.read", "*"}, true},
		"service role, nothing":                 {auth.ServiceRole, []string{}, false},
		"service role, no list":                 {auth.ServiceRole, nil, false},
		"service role, something else":          {auth.ServiceRole, []string{"files.read"}, false},
		"service role, other case":              {auth.ServiceRole, []string{"Locks.Manage"}, false},
		"service role, longer name":             {auth.ServiceRole, []string{"locks.manage.own", "locks.*"}, false},
		"anon":                                  {auth.Anon, []string{"*", "locks.manage"}, false},
		"auth user":                             {auth.AuthUser, []string{"*", "locks.manage"}, false},
		"platform":                              {auth.Platform, []string{"*", "locks.manage"}, false},
		"no kind":                               {"", []string{"*", "locks.manage"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := auth.Principal{Kind: c.kind, Permissions: c.permissions}
			if got := p.CanManageLocks(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAKindHasAWordAndADescription(t *testing.T) {
	for kind, want := range map[auth.Kind][2]string{
		auth.ServiceRole:  {"service_role", "a service-role key"},
		auth.Anon:         {"anon", "an anon key"},
		auth.AuthUser:     {"authenticated", "an auth-user access token"},
		auth.Platform:     {"platform", "a platform token"},
		auth.Kind("king"): {"king", "an unknown credential"},
	} {
		if got := [2]string{kind.String(), kind.Describe()}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
