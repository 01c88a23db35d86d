package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/project-locks/gateway/configs"
)

// What the manifests have, as Kubernetes names it.
type (
	metadata struct {
		Name   string
		Labels map[string]string
	}
	selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
	}
	deployment struct {
		head     `yaml:",inline"`
		Metadata metadata
		Spec     struct {
			Replicas int
			Selector selector
			Strategy struct {
				RollingUpdate map[string]int `yaml:"rollingUpdate"`
			}
			Template struct {
				Metadata metadata
				Spec     pod
			}
		}
	}
	pod struct {
		AutomountServiceAccountToken  *bool            `yaml:"automountServiceAccountToken"`
		EnableServiceLinks            *bool            `yaml:"enableServiceLinks"`
		TerminationGracePeriodSeconds int              `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               podSecurity      `yaml:"securityContext"`
		TopologySpreadConstraints     []map[string]any `yaml:"topologySpreadConstraints"`
		Containers                    []container
		Volumes                       []volume
	}
	podSecurity struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int64                 `yaml:"runAsUser"`
		RunAsGroup     int64                 `yaml:"runAsGroup"`
		FSGroup        int64                 `yaml:"fsGroup"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	}
	container struct {
		Name, Image string
		Args        []string
		Ports       []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		Env            []variable
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
		Lifecycle      struct {
			PreStop struct {
				Sleep struct{ Seconds int }
			} `yaml:"preStop"`
		}
		Resources       struct{ Requests, Limits map[string]string }
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	variable struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	probe struct {
		HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
		PeriodSeconds    int                         `yaml:"periodSeconds"`
		TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
		FailureThreshold int                         `yaml:"failureThreshold"`
	}
	volume struct {
		Name   string
		Secret struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
			Items       []struct{ Key, Path string }
		}
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
	service struct {
		head     `yaml:",inline"`
		Metadata metadata
		Spec     struct {
			Selector map[string]string
			Ports    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	disruptionBudget struct {
		head     `yaml:",inline"`
		Metadata metadata
		Spec     struct {
			MaxUnavailable int    `yaml:"maxUnavailable"`
			EvictUnhealthy string `yaml:"unhealthyPodEvictionPolicy"`
			Selector       selector
		}
	}
	configMap struct {
		head     `yaml:",inline"`
		Metadata metadata
		Data     map[string]string
	}
	secret struct {
		head       `yaml:",inline"`
		Metadata   metadata
		Type       string
		StringData map[string]string `yaml:"stringData"`
	}
	kustomization struct {
		head      `yaml:",inline"`
		Resources []string
		Images    []struct {
			Name    string
			NewName string `yaml:"newName"`
			NewTag  string `yaml:"newTag"`
		}
	}
)

// cluster is all manifests together.
type cluster struct {
	deployment deployment
	service    service
	budget     disruptionBudget
	policy     configMap
	secret     secret
	kustomize  kustomization
}

const kubernetes = "deploy/kubernetes"

// readCluster reads every document of every manifest.
func readCluster(t *testing.T) (c cluster) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join("..", kubernetes))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		for text := range strings.SplitSeq(read(t, filepath.Join(kubernetes, file.Name())), "\n---\n") {
			var kind head
			if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
				t.Fatalf("%s: %v", file.Name(), err)
			}
			found[kind.APIVersion+" "+kind.Kind] = true
			switch kind.Kind {
			case "Deployment":
				c.deployment = decode[deployment](t, text)
			case "Service":
				c.service = decode[service](t, text)
			case "PodDisruptionBudget":
				c.budget = decode[disruptionBudget](t, text)
			case "ConfigMap":
				c.policy = decode[configMap](t, text)
			case "Secret":
				c.secret = decode[secret](t, text)
			case "Kustomization":
				c.kustomize = decode[kustomization](t, text)
			}
		}
	}
	want := []string{
		"apps/v1 Deployment", "kustomize.config.k8s.io/v1beta1 Kustomization", "policy/v1 PodDisruptionBudget",
		"v1 ConfigMap", "v1 Secret", "v1 Service",
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Fatalf("manifests %q, want %q", got, want)
	}
	return c
}

func (c cluster) pod() pod { return c.deployment.Spec.Template.Spec }

func (c cluster) container() container { return c.pod().Containers[0] }

// environment is what the container is started with, secrets and all, and the text of each file that
// is mounted into it.
func (c cluster) environment(t *testing.T) (environ, files map[string]string) {
	t.Helper()
	environ, files = map[string]string{}, map[string]string{}
	for _, v := range c.container().Env {
		environ[v.Name] = v.Value
		if ref := v.ValueFrom.SecretKeyRef; ref.Name != "" {
			if ref.Name != c.secret.Metadata.Name {
				t.Errorf("%s comes from the secret %q, which there is not", v.Name, ref.Name)
			}
			environ[v.Name] = c.secret.StringData[ref.Key]
		}
	}
	for _, mount := range c.container().VolumeMounts {
		i := slices.IndexFunc(c.pod().Volumes, func(v volume) bool { return v.Name == mount.Name })
		if i < 0 || !mount.ReadOnly {
			t.Fatalf("%s is mounted on no volume, or for writing", mount.MountPath)
		}
		switch v := c.pod().Volumes[i]; {
		case v.Secret.SecretName == c.secret.Metadata.Name:
			for _, item := range v.Secret.Items {
				files[filepath.Join(mount.MountPath, item.Path)] = c.secret.StringData[item.Key]
			}
		case v.ConfigMap.Name == c.policy.Metadata.Name:
			for name, text := range c.policy.Data {
				files[filepath.Join(mount.MountPath, name)] = text
			}
		default:
			t.Errorf("the volume %s is of nothing that there is", v.Name)
		}
	}
	return environ, files
}

func TestTheManifestsFitTogether(t *testing.T) {
	c := readCluster(t)
	labels := c.deployment.Spec.Template.Metadata.Labels
	for name, selected := range map[string]map[string]string{
		"deployment": c.deployment.Spec.Selector.MatchLabels,
		"service":    c.service.Spec.Selector,
		"budget":     c.budget.Spec.Selector.MatchLabels,
	} {
		if len(selected) == 0 || !maps.Equal(selected, labels) {
			t.Errorf("the %s selects %v, the pods have %v", name, selected, labels)
		}
	}
	if c.deployment.Spec.Replicas < 2 || c.budget.Spec.MaxUnavailable >= c.deployment.Spec.Replicas {
		t.Errorf("%d replicas, of which %d may be missing", c.deployment.Spec.Replicas, c.budget.Spec.MaxUnavailable)
	}
	if c.budget.Spec.EvictUnhealthy != "AlwaysAllow" {
		t.Errorf("pods that are not ready are evicted %q, and keep a node from being drained", c.budget.Spec.EvictUnhealthy)
	}
	ports := c.container().Ports
	if len(c.service.Spec.Ports) != 1 || ports[0].Name != c.service.Spec.Ports[0].TargetPort || ports[0].Name == "admin" {
		t.Errorf("the service %+v is not for the first of the ports %+v, and only that", c.service.Spec.Ports, ports)
	}
	if c.kustomize.Images[0].Name != c.container().Image {
		t.Errorf("the image is %q, the kustomization replaces %q", c.container().Image, c.kustomize.Images[0].Name)
	}
	for _, file := range c.kustomize.Resources {
		if strings.Contains(read(t, filepath.Join(kubernetes, file)), "kind: Secret") {
			t.Errorf("%s would put an example in the place of the real secret", file)
		}
	}
}

func TestThePodsStopInTimeAndAreProbedWhereTheyAnswer(t *testing.T) {
	c := readCluster(t)
	environ, _ := c.environment(t)
	s := load(t, "Kubernetes", environ, nil)
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	pause := seconds(c.container().Lifecycle.PreStop.Sleep.Seconds)
	if grace := seconds(c.pod().TerminationGracePeriodSeconds); grace <= pause+s.ShutdownTimeout {
		t.Errorf("the grace period %v ends before the pause %v and the stop %v", grace, pause, s.ShutdownTimeout)
	}
	live, ready := c.container().LivenessProbe, c.container().ReadinessProbe
	if live.HTTPGet.Path != "/healthz" || ready.HTTPGet.Path != "/readyz" || live.HTTPGet.Port != "admin" || ready.HTTPGet.Port != "admin" {
		t.Errorf("probes %+v and %+v", live, ready)
	}
	if seconds(ready.TimeoutSeconds) <= s.StoreTimeout {
		t.Errorf("the readiness probe waits %d s, the store may take %v", ready.TimeoutSeconds, s.StoreTimeout)
	}
	for i, address := range []string{s.Addr, s.AdminAddr} {
		if port := c.container().Ports[i]; address != fmt.Sprintf(":%d", port.ContainerPort) {
			t.Errorf("the port %s is %d, the gateway listens on %s", port.Name, port.ContainerPort, address)
		}
	}
}

func TestThePodsMayDoNothingThatTheyNeedNot(t *testing.T) {
	c := readCluster(t)
	user, own := c.pod().SecurityContext, c.container().SecurityContext
	if !user.RunAsNonRoot || user.RunAsUser == 0 || user.FSGroup != user.RunAsGroup || user.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("security of the pod: %+v", user)
	}
	if own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation || !own.ReadOnlyRootFilesystem || !slices.Equal(own.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("security of the container: %+v", own)
	}
	for name, flag := range map[string]*bool{"service account token": c.pod().AutomountServiceAccountToken, "service links": c.pod().EnableServiceLinks} {
		if flag == nil || *flag {
			t.Errorf("the pods have a %s", name)
		}
	}
	if c.container().Resources.Requests["memory"] == "" || c.container().Resources.Limits["memory"] == "" {
		t.Errorf("resources: %+v", c.container().Resources)
	}
	if got, want := dockerfile(t).last("USER"), fmt.Sprintf("%d:%d", user.RunAsUser, user.RunAsGroup); got != want {
		t.Errorf("the image runs as %s, the pods as %s", got, want)
	}
}

// TestTheExampleSecretDoesNotStart so that nobody serves with a secret that everybody knows.
func TestTheExampleSecretDoesNotStart(t *testing.T) {
	c := readCluster(t)
	environ, files := c.environment(t)
	environ["GATEWAY_JWT_SECRET_FILE"] = write(t, "jwt-secret", files[environ["GATEWAY_JWT_SECRET_FILE"]])
	environ["GATEWAY_POLICY_FILE"] = ""
	if _, err := configs.Load(environ); err == nil || !strings.Contains(err.Error(), "GATEWAY_JWT_SECRET_FILE") {
		t.Errorf("the example: %v", err)
	}
}
