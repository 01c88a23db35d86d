package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

type (
	composition struct {
		Name     string
		Services map[string]composed
		Networks map[string]struct{ Internal bool }
		Volumes  map[string]any
	}
	composed struct {
		Build, Image, Command string
		Environment           map[string]string
		Volumes, Ports        []string
		Networks              []string
		DependsOn             map[string]struct{ Condition string } `yaml:"depends_on"`
		StopGracePeriod       time.Duration                         `yaml:"stop_grace_period"`
		Restart               string
		ReadOnly              bool     `yaml:"read_only"`
		CapDrop               []string `yaml:"cap_drop"`
		SecurityOpt           []string `yaml:"security_opt"`
		Healthcheck           struct {
			Test              []string
			Interval, Timeout time.Duration
		}
	}
)

func readCompose(t *testing.T) composition {
	t.Helper()
	return decode[composition](t, read(t, "deploy/compose.yaml"))
}

func TestTheCompositionFitsTogether(t *testing.T) {
	c := readCompose(t)
	gateway, redis, api := c.Services["gateway"], c.Services["redis"], c.Services["api"]
	s := load(t, "compose", gateway.Environment, map[string]string{gateway.Environment["GATEWAY_POLICY_FILE"]: ""})
	if got, want := s.Store.String(), "redis://redis:6379/0"; got != want {
		t.Errorf("the store is %s, the service redis is at %s", got, want)
	}
	if _, port, found := strings.Cut(gateway.Environment["GATEWAY_UPSTREAM"], "http://api:"); !found || api.Command != "--port "+port {
		t.Errorf("the upstream is %s, the API is started with %q", gateway.Environment["GATEWAY_UPSTREAM"], api.Command)
	}
	if gateway.StopGracePeriod <= s.ShutdownTimeout {
		t.Errorf("killed after %v, the stop may take %v", gateway.StopGracePeriod, s.ShutdownTimeout)
	}
	for _, option := range []string{"--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"} {
		if !strings.Contains(redis.Command, option) {
			t.Errorf("Redis is started without %s", option)
		}
	}
	if gateway.DependsOn["redis"].Condition != "service_healthy" || len(redis.Healthcheck.Test) == 0 {
		t.Errorf("the gateway does not wait for Redis: %+v", gateway.DependsOn)
	}
	if !slices.Contains(redis.Volumes, "redis-data:/data") || len(redis.Ports) > 0 || !c.Networks["store"].Internal {
		t.Errorf("Redis keeps nothing, or is open to others: %+v", redis)
	}
	folder, inside, _ := strings.Cut(gateway.Volumes[0], ":")
	if _, err := os.Stat(folder + "/policy.yaml"); err != nil || inside != "/etc/gateway:ro" {
		t.Errorf("the policy is mounted from %s on %s: %v", folder, inside, err)
	}
	if !slices.Contains(gateway.Ports, "127.0.0.1:9090:9090") {
		t.Errorf("the admin listener is open to others: %v", gateway.Ports)
	}
}
