package configs

import (
	"testing"

	"github.com/google/uuid"
)

var (
	billing = uuid.MustParse("6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11")
	other   = uuid.MustParse("0b8a9f0e-6f1d-4b3f-8f0c-2f4f4a1c9d22")
)

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	policy, err := ParsePolicy("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func TestWithoutAPolicyEveryProjectHasTheDefault(t *testing.T) {
	for name, policy := range map[string]*Policy{
		"no policy":            nil,
		"an empty policy":      {},
		"an empty mapping":     parse(t, "{}"),
		"keys without a value": parse(t, "default:\nprojects:\n"),
		"a project of nothing": parse(t, "projects:\n  "+billing.String()+":\n"),
		"no revoked keys":      parse(t, "projects:\n  "+billing.String()+":\n    revoked_keys:\n"),
		"an explicit document": parse(t, "---\n{}\n...\n"),
		"a byte order mark":    parse(t, "\ufeffprojects: {}"),
	} {
		t.Run(name, func(t *testing.T) {
			got := policy.Project(billing)
			if got.LocksPerMinute != 600 || got.Suspended || got.Name != "" || got.Revoked("") || got.Revoked("a") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestForwardedRequestsHaveALimitOnlyWhereThePolicyGivesOne(t *testing.T) {
	const defaults = "default: {requests_per_minute: 7, when_store_unavailable: refuse}\n"
	tests := map[string]struct {
		text    string
		limit   int64
		without WhenUnavailable
	}{
		"no policy at all":         {"{}", 0, Allow},
		"no such field":            {"default: {locks_per_minute: 7}", 0, Allow},
		"by default":               {defaults, 7, Refuse},
		"a project of its own":     {defaults + "projects: {" + billing.String() + ": {requests_per_minute: 9, when_store_unavailable: allow}}", 9, Allow},
		"a project without limits": {defaults + "projects: {" + billing.String() + ": {name: a}}", 7, Refuse},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parse(t, test.text).Project(billing)
			if got.RequestsPerMinute != test.limit || got.WhenUnavailable != test.without {
				t.Errorf("%d a minute, %s; want %d, %s", got.RequestsPerMinute, got.WhenUnavailable, test.limit, test.without)
			}
		})
	}
}

func TestProjectFillsInTheDefault(t *testing.T) {
	tests := map[string]struct {
		text           string
		billing, other int64
	}{
		"the default of the file":         {"default: {locks_per_minute: 7}\nprojects: {" + billing.String() + ": {name: a}}", 7, 7},
		"a number of its own":             {"default: {locks_per_minute: 7}\nprojects: {" + billing.String() + ": {locks_per_minute: 9}}", 9, 7},
		"a default after the projects":    {"projects: {" + billing.String() + ": {}}\ndefault: {locks_per_minute: 7}", 7, 7},
		"a number and no default section": {"projects: {" + billing.String() + ": {locks_per_minute: 1}}", 1, 600},
		"the largest number":              {"projects: {" + billing.String() + ": {locks_per_minute: 1000000000}}", 1_000_000_000, 600},
		"an id in upper case":             {"projects: {6F1C1A52-8A53-4C2B-9A0E-0D3D6D0F4A11: {locks_per_minute: 9}}", 9, 600},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy := parse(t, test.text)
			if got := policy.Project(billing).LocksPerMinute; got != test.billing {
				t.Errorf("%d a minute for the project, want %d", got, test.billing)
			}
			if got := policy.Project(other).LocksPerMinute; got != test.other {
				t.Errorf("%d a minute for another project, want %d", got, test.other)
			}
		})
	}
}

func TestProjectKnowsNameSuspensionAndRevokedKeys(t *testing.T) {
	policy := parse(t, `
projects:
  6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11:
    name: "Ünïcode: yes"
    suspended: true
    revoked_keys: [key_b, key_c, "123", key_a, key_a]
  0b8a9f0e-6f1d-4b3f-8f0c-2f4f4a1c9d22:
    suspended: false
`)
	got := policy.Project(billing)
	if got.Name != "Ünïcode: yes" || !got.Suspended {
		t.Errorf("got %+v", got)
	}
	for keyID, want := range map[string]bool{"key_a": true, "key_b": true, "key_c": true, "123": true, "key_d": false, "KEY_A": false, "": false} {
		if got.Revoked(keyID) != want {
			t.Errorf("Revoked(%q) is not %v", keyID, want)
		}
	}
	if another := policy.Project(other); another.Suspended || another.Revoked("key_a") {
		t.Errorf("another project has %+v", another)
	}
}

func TestProjectAllocatesNothing(t *testing.T) {
	for name, policy := range map[string]*Policy{
		"no policy": nil,
		"a policy":  parse(t, "projects: {"+billing.String()+": {name: billing, revoked_keys: [a, b]}}"),
	} {
		t.Run(name, func(t *testing.T) {
			revoked := false
			allocations := testing.AllocsPerRun(100, func() { revoked = policy.Project(billing).Revoked("b") || policy.Project(other).Suspended })
			if allocations != 0 {
				t.Errorf("%v allocations", allocations)
			}
			if revoked != (policy != nil) {
				t.Errorf("Revoked is %v", revoked)
			}
		})
	}
}
