package deploy

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/project-locks/gateway/configs"
)

// known reports whether a setting exists.
func known(name string) bool {
	for field := range reflect.TypeFor[configs.Settings]().Fields() {
		if field.Tag.Get("env") == name {
			return true
		}
	}
	return false
}

var settingName = regexp.MustCompile(`\bGATEWAY_[A-Z0-9_]*[A-Z0-9]\b`)

// TestEverySettingThatIsNamedExists looks into all that people copy from.
func TestEverySettingThatIsNamedExists(t *testing.T) {
	paths := []string{"README.md", "Dockerfile", "configs/gateway.env.example", "api/openapi.yaml"}
	for _, folder := range []string{"deploy", "docs"} {
		err := fs.WalkDir(os.DirFS(".."), folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) != ".go" {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range paths {
		for _, name := range settingName.FindAllString(read(t, path), -1) {
			if !known(name) {
				t.Errorf("%s names %s, which is no setting", path, name)
			}
		}
	}
}

// load loads an environment as a deployment has it. Keys and files are on the operator's machine: in
// their places stand others, files with the text given.
func load(t *testing.T, deployment string, environ, files map[string]string) configs.Settings {
	t.Helper()
	const secret = "not a secret, but long enough for one"
	environ = maps.Clone(environ)
	if environ["GATEWAY_JWT_SECRET_FILE"] != "" {
		environ["GATEWAY_JWT_SECRET_FILE"] = write(t, "jwt-secret", secret)
	} else {
		environ["GATEWAY_JWT_SECRET"] = secret
	}
	if path := environ["GATEWAY_POLICY_FILE"]; path != "" {
		environ["GATEWAY_POLICY_FILE"] = write(t, "policy.yaml", cmp.Or(files[path], "{}"))
	}
	s, err := configs.Load(environ)
	if err != nil {
		t.Fatalf("%s: %v", deployment, err)
	}
	return s
}

// TestEveryValueIsAccepted loads what each deployment sets.
func TestEveryValueIsAccepted(t *testing.T) {
	example := map[string]string{"/etc/gateway/policy.yaml": read(t, "configs/policy.example.yaml")}
	environ, files := readCluster(t).environment(t)
	if len(files) != 2 || files[environ["GATEWAY_POLICY_FILE"]] == "" || files[environ["GATEWAY_JWT_SECRET_FILE"]] == "" {
		t.Errorf("files %v are mounted, %v asks for others", slices.Sorted(maps.Keys(files)), environ)
	}
	if s := load(t, "Kubernetes", environ, files); !s.Store.Redis() {
		t.Errorf("the replicas share no store: %v", s.Store)
	}
	gateway := readCompose(t).Services["gateway"]
	if s := load(t, "compose", gateway.Environment, map[string]string{"/etc/gateway/policy.yaml": read(t, "deploy/policy/policy.yaml")}); !s.Store.Redis() {
		t.Errorf("compose: the store is %v", s.Store)
	}
	set, shown := unit(t).environment(t)
	load(t, "systemd", set, example)
	load(t, "systemd, with what is commented out", shown, example)
	if s := load(t, "Dockerfile", dockerfile(t).environment(), nil); !strings.HasPrefix(s.Addr, ":") || !strings.HasPrefix(s.AdminAddr, ":") {
		t.Errorf("in a container nobody reaches %s and %s", s.Addr, s.AdminAddr)
	}
}
