package configs

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// readExample reads gateway.env.example: what is set, and what is shown in a comment.
func readExample(t *testing.T) (set, shown map[string]string) {
	t.Helper()
	text, err := os.ReadFile("gateway.env.example")
	if err != nil {
		t.Fatal(err)
	}
	set, shown = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, value, found := strings.Cut(strings.TrimPrefix(line, "#"), "="); found && strings.HasPrefix(name, prefix) {
			shown[name] = value
			if !strings.HasPrefix(line, "#") {
				set[name] = value
			}
		} else if line != "" && !strings.HasPrefix(line, "#") {
			t.Errorf("neither a setting nor a comment: %q", line)
		}
	}
	return set, shown
}

func TestExampleEnvironmentLoads(t *testing.T) {
	set, shown := readExample(t)
	secretFile := file(t, "jwt-secret", testSecret+"\n")
	for _, environ := range []map[string]string{set, shown} {
		// The files of the example are on the operator's machine.
		environ["GATEWAY_JWT_SECRET_FILE"] = secretFile
		environ["GATEWAY_POLICY_FILE"] = "policy.example.yaml"
		delete(environ, "GATEWAY_JWKS_FILE")
		delete(environ, "GATEWAY_TLS_CERT")
		delete(environ, "GATEWAY_TLS_KEY")
		if _, err := Load(environ); err != nil {
			t.Error(err)
		}
	}
}

func TestExampleEnvironmentShowsEverySettingWithItsDefault(t *testing.T) {
	_, shown := readExample(t)
	for field := range reflect.TypeFor[Settings]().Fields() {
		name := field.Tag.Get("env")
		if name == "" {
			continue
		}
		value, found := shown[name]
		if preset, has := field.Tag.Lookup("envDefault"); !found || has && value != preset {
			t.Errorf("%s is shown as %q, its default is %q", name, value, preset)
		}
	}
}

func TestExamplePolicyLoads(t *testing.T) {
	policy, err := ReadPolicy("policy.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := policy.Project(billing); got.Name != "billing" || got.LocksPerMinute != 1200 || !got.Revoked("key_2026_01") || got.Suspended {
		t.Errorf("billing has %+v", got)
	}
	if got := policy.Project(other); got.LocksPerMinute != 600 || !got.Suspended {
		t.Errorf("the suspended project has %+v", got)
	}
}
