package deploy

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// section is the assignments of a section of a unit, in their order.
type section []struct{ name, value string }

func (s section) all(name string) (values []string) {
	for _, line := range s {
		if line.name == name {
			values = append(values, line.value)
		}
	}
	return values
}

func (s section) last(name string) string {
	values := s.all(name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

var assignment = regexp.MustCompile(`^[A-Z][A-Za-z]+=`)

// unitFile is gateway.service by its sections.
type unitFile map[string]section

// unit reads gateway.service: sections, comments and assignments, and nothing else.
func unit(t *testing.T) unitFile {
	t.Helper()
	u, current := unitFile{}, ""
	for number, line := range strings.Split(strings.TrimSuffix(read(t, "deploy/systemd/gateway.service"), "\n"), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			current = strings.Trim(line, "[]")
		case current != "" && assignment.MatchString(line):
			name, value, _ := strings.Cut(line, "=")
			u[current] = append(u[current], struct{ name, value string }{name, value})
		default:
			t.Fatalf("line %d is no part of a unit: %s", number+1, line)
		}
	}
	return u
}

// environment is what the unit and its file set, and the same with what is commented out in the file.
func (u unitFile) environment(t *testing.T) (set, shown map[string]string) {
	t.Helper()
	set = map[string]string{}
	for _, text := range u["Service"].all("Environment") {
		name, value, _ := strings.Cut(text, "=")
		set[name] = value
	}
	shown = maps.Clone(set)
	for line := range strings.SplitSeq(read(t, "deploy/systemd/gateway.env"), "\n") {
		name, value, found := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		switch {
		case !found || !settingName.MatchString(name) || strings.Contains(name, " "):
		case !strings.HasPrefix(line, "#"):
			set[name] = value
			fallthrough
		default:
			shown[name] = value
		}
	}
	return set, shown
}

func TestTheUnitFitsTogether(t *testing.T) {
	u := unit(t)
	if got := slices.Sorted(maps.Keys(u)); !slices.Equal(got, []string{"Install", "Service", "Unit"}) {
		t.Errorf("sections %q", got)
	}
	s := u["Service"]
	for name, want := range map[string]string{
		"ExecStart": "/usr/local/bin/gateway serve", "ExecReload": "/bin/kill -HUP $MAINPID",
		"DynamicUser": "yes", "StateDirectory": "gateway", "EnvironmentFile": "/etc/gateway/gateway.env",
		"NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
	} {
		if got := s.last(name); got != want || len(s.all(name)) != 1 {
			t.Errorf("%s=%s, want %q once", name, got, want)
		}
	}
	set, _ := u.environment(t)
	loaded := load(t, "systemd", set, nil)
	if stop, err := time.ParseDuration(s.last("TimeoutStopSec")); err != nil || stop <= loaded.ShutdownTimeout {
		t.Errorf("killed after %v, the stop may take %v", stop, loaded.ShutdownTimeout)
	}
	if !strings.HasPrefix(loaded.Store.Path, "/var/lib/"+s.last("StateDirectory")+"/") {
		t.Errorf("%v is not in the state directory", loaded.Store)
	}
	_, name, _ := strings.Cut(set["GATEWAY_JWT_SECRET_FILE"], "%d/")
	if credential, _, _ := strings.Cut(s.last("LoadCredential"), ":"); credential != name {
		t.Errorf("the secret is loaded as %q, and read as %q", credential, name)
	}
}

func TestSystemdUnderstandsTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	text := strings.Replace(read(t, "deploy/systemd/gateway.service"), "/usr/local/bin/gateway", "/bin/true", 1)        // which is there
	out, err := exec.CommandContext(t.Context(), analyze, "verify", write(t, "gateway.service", text)).CombinedOutput() //nolint:gosec // from the PATH
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
