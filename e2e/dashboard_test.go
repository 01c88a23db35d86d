package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v4"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

const (
	dashboardFile = "../deploy/grafana/dashboard.json"
	alertsFile    = "../deploy/prometheus/alerts.yaml"
)

// panel is a panel of the dashboard, or a row of them.
type panel struct {
	ID      int
	Type    string
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

// readDashboard also returns what the variables of the dashboard ask for.
func readDashboard(t *testing.T) (panels []panel, variables []string) {
	t.Helper()
	var dashboard struct {
		Panels     []panel
		Templating struct {
			List []struct{ Type, Query string }
		}
	}
	if err := json.Unmarshal([]byte(contents(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			variables = append(variables, v.Query)
		}
	}
	return dashboard.Panels, variables
}

// filledIn is a query as Grafana sends it.
func filledIn(query string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(query)
}

// alert is one rule of the alert file.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(t *testing.T) (alerts []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	data, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Load(data, &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		alerts = append(alerts, group.Rules...)
	}
	if len(alerts) == 0 {
		t.Fatal("there are no alerts")
	}
	return alerts
}

// firing are the names of the alerts whose expression holds now, in order. One
// that a busy machine may raise counts only where it is expected.
func (s *scrapes) firing(alerts []alert, expected ...string) (names []string) {
	s.t.Helper()
	for _, a := range alerts {
		counts := a.Alert != "GatewayStoreSlow" || slices.Contains(expected, a.Alert)
		if counts && len(s.query(a.Expr)) > 0 {
			names = append(names, a.Alert)
		}
	}
	slices.Sort(names)
	return names
}

// ordinary is what clients of a gateway do on a day without trouble.
func ordinary(t *testing.T, g *gateway) {
	t.Helper()
	c, owner, other := g.client(t, uuid.New()), uuid.New(), uuid.New()
	c.acquire("key", owner, 60).granted(http.StatusCreated)
	c.acquire("key", other, 60).want(http.StatusConflict, "lock_held")
	c.renew("key", owner, 60).granted(http.StatusOK)
	c.read("key").held()
	c.release("key", other).want(http.StatusConflict, "lock_ownership_lost")
	c.release("key", owner).want(http.StatusNoContent, "")
	c.forceRelease("key").want(http.StatusNoContent, "")
	c.do(request{method: http.MethodPut, path: "/locks/key"}).want(http.StatusMethodNotAllowed, "method_not_allowed")
	c.do(pages("/Locks/key")).want(http.StatusNotFound, "not_found")
}

func TestEveryQueryOfTheDashboardAnswers(t *testing.T) {
	t.Parallel()
	given := edge(t)
	given["GATEWAY_STORE"] = redistest.Start(t).URL()
	given["GATEWAY_POLICY_FILE"] = writeFile(t, "policy.yaml", quotaPolicy(uuid.New(), 100))
	g := start(t, given)
	s := newScrapes(t)
	s.scrape(g)
	for range 2 {
		ordinary(t, g)
		if a := g.clientWith(t, "").do(pages("/page")); a.status != http.StatusOK {
			t.Fatalf("a forwarded request: %v", a)
		}
		s.scrape(g)
	}

	panels, variables := readDashboard(t)
	ids, queries := map[int]bool{}, 0
	for _, p := range panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries++
			s.wantAnswer(p.Title, filledIn(target.Expr), target.LegendFormat)
		}
	}
	if queries == 0 {
		t.Error("the dashboard asks nothing")
	}
	for _, query := range variables {
		parts := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(query)
		if parts == nil {
			t.Fatalf("the variable %s is none that this test can read", query)
		}
		s.wantKnown(fmt.Sprintf(`%s{%s!=""}`, parts[1], parts[2]))
	}
	alerts := readAlerts(t)
	if firing := s.firing(alerts); len(firing) > 0 {
		t.Errorf("without any trouble there are alerts: %v", firing)
	}
	for _, a := range alerts {
		s.wantKnown(a.Expr)
	}
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// wantAnswer fails the test unless a query returns something, with all labels
// that its legend shows.
func (s *scrapes) wantAnswer(title, query, legend string) {
	s.t.Helper()
	s.wantKnown(query)
	results := s.query(query)
	if len(results) == 0 {
		s.t.Errorf("%s: nothing answers %s", title, query)
	}
	for _, r := range results {
		for _, name := range legendLabel.FindAllStringSubmatch(legend, -1) {
			if !r.labels.Has(name[1]) {
				s.t.Errorf("%s: the legend %q shows a label that %v does not have", title, legend, r.labels)
			}
		}
	}
}

func TestEachTroubleRaisesItsAlert(t *testing.T) {
	t.Parallel()
	alerts := readAlerts(t)
	raised := map[string]bool{}
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			s := newScrapes(t)
			trouble.run(t, s)
			firing := s.firing(alerts, trouble.alerts...)
			if !slices.Equal(firing, trouble.alerts) {
				t.Errorf("it raises %v, want %v", firing, trouble.alerts)
			}
			for _, a := range firing {
				raised[a] = true
			}
		})
	}
	for _, a := range alerts {
		if !raised[a.Alert] {
			t.Errorf("nothing has raised %s", a.Alert)
		}
	}
}

// troubles are days that operators want to hear of.
var troubles = map[string]struct {
	alerts []string
	run    func(t *testing.T, s *scrapes)
}{
	"the store is gone": {[]string{"GatewayErrors", "GatewayStoreDown"}, func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		g := start(t, settings{"GATEWAY_STORE": server.URL()})
		s.scrape(g)
		ordinary(t, g)
		server.Kill()
		for range 5 {
			g.client(t, uuid.New()).read("key").want(http.StatusServiceUnavailable, "lock_service_unavailable")
		}
		s.scrape(g)
	}},
	"the store is slow": {[]string{"GatewayStoreSlow"}, func(t *testing.T, s *scrapes) {
		way := newLine(t, redistest.Start(t).Addr)
		g := start(t, settings{"GATEWAY_STORE": way.url()})
		ordinary(t, g)
		s.scrape(g)
		way.trap.Store(&trap{":lease:key", func() bool {
			time.Sleep(600 * time.Millisecond)
			return true
		}})
		g.client(t, uuid.New()).read("key").free()
		s.scrape(g)
	}},
	"a project asks too much": {[]string{"GatewayQuotaExhausted"}, func(t *testing.T, s *scrapes) {
		project := uuid.New()
		g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 2)+"    name: billing\n")})
		s.scrape(g)
		freshMinute()
		c := g.client(t, project)
		for _, status := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
			if a := c.read("key"); a.status != status {
				t.Fatalf("%v, want %d", a, status)
			}
		}
		s.scrape(g)
		if got := s.query(`gateway_quota_refusals_total{project="billing"}`); len(got) != 1 || got[0].value != 2 {
			t.Errorf("refused were %v", got)
		}
	}},
	"an owner died": {[]string{"GatewayLeasesTakenOver"}, func(t *testing.T, s *scrapes) {
		g := start(t, nil)
		s.scrape(g)
		c := g.client(t, uuid.New())
		l := c.acquire("key", uuid.New(), 5).granted(http.StatusCreated)
		time.Sleep(time.Until(l.ExpiresAt.Add(time.Second + time.Millisecond)))
		c.acquire("key", uuid.New(), 5).granted(http.StatusCreated)
		s.scrape(g)
	}},
	"the clocks differ": {[]string{"GatewayClockDifference"}, func(t *testing.T, s *scrapes) {
		g := start(t, nil)
		ordinary(t, g)
		const name = "\ngateway_store_clock_difference_seconds "
		text := g.metrics()
		if !strings.Contains(text, name) {
			t.Fatal("there is no difference to change")
		}
		// Nobody but the machine can set its clock, so only the number is made up.
		s.take("gateway-0", []byte(strings.Replace(text, name, name+"-1.5\n# ", 1)))
	}},
	"the policy file is wrong": {[]string{"GatewayPolicyReloadFailed"}, func(t *testing.T, s *scrapes) {
		path := writeFile(t, "policy.yaml", quotaPolicy(uuid.New(), 2))
		g := start(t, settings{"GATEWAY_POLICY_FILE": path})
		if err := os.WriteFile(path, []byte("default: [\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the refusal of the file", func() bool { return complained(g, path, "YAML") })
		s.scrape(g)
	}},
	"two gateways have different policies": {[]string{"GatewayPoliciesDiffer"}, func(t *testing.T, s *scrapes) {
		s.scrape(
			start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(uuid.New(), 2))}),
			start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(uuid.New(), 3))}),
		)
	}},
	"the key set cannot be fetched": {[]string{"GatewayKeySetNotFetched"}, func(t *testing.T, s *scrapes) {
		g := start(t, settings{"GATEWAY_JWKS_URL": publish(t, http.StatusInternalServerError, "")})
		ordinary(t, g)
		s.scrape(g)
	}},
	"forwarded requests are not counted": {[]string{"GatewayForwardsUncounted", "GatewayStoreDown"}, func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		given := edge(t)
		given["GATEWAY_STORE"] = server.URL()
		given["GATEWAY_POLICY_FILE"] = writeFile(t, "policy.yaml", "default: {requests_per_minute: 100}\n")
		g := start(t, given)
		s.scrape(g)
		server.Kill()
		for range 2 {
			if a := g.client(t, uuid.New()).do(pages("/page")); a.status != http.StatusOK {
				t.Fatalf("uncounted: %v", a)
			}
		}
		s.scrape(g)
	}},
	"the disk of the audit log is full": {[]string{"GatewayAuditLinesLost"}, func(t *testing.T, s *scrapes) {
		g := start(t, settings{"GATEWAY_AUDIT_LOG": "/dev/full"})
		s.scrape(g)
		g.client(t, uuid.New()).read("key").free()
		s.scrape(g)
	}},
}

func TestAlertsAreComplete(t *testing.T) {
	t.Parallel()
	functions := template.FuncMap{}
	for _, name := range []string{"humanize", "humanizeDuration", "humanizePercentage"} {
		functions[name] = func(any) string { return name }
	}
	for _, a := range readAlerts(t) {
		if a.Labels["severity"] != "critical" && a.Labels["severity"] != "warning" {
			t.Errorf("%s has the severity %q", a.Alert, a.Labels["severity"])
		}
		if _, err := time.ParseDuration(a.For); err != nil && a.For != "" {
			t.Errorf("%s: %v", a.Alert, err)
		}
		if !slices.Equal(slices.Sorted(maps.Keys(a.Annotations)), []string{"description", "summary"}) {
			t.Errorf("%s has the annotations %v", a.Alert, slices.Collect(maps.Keys(a.Annotations)))
		}
		for _, text := range a.Annotations {
			if _, err := template.New(a.Alert).Funcs(functions).Parse("{{$labels := .}}{{$value := .}}" + text); err != nil {
				t.Error(err)
			}
		}
	}
}

var metricName = regexp.MustCompile(`gateway_[a-z0-9_]+`)

func TestTheListOfMetricsIsComplete(t *testing.T) {
	t.Parallel()
	listed, shown := map[string]bool{}, map[string]bool{}
	for line := range strings.SplitSeq(contents(t, filepath.Join("..", "docs", "metrics.md")), "\n") {
		if strings.HasPrefix(line, "| `gateway_") {
			listed[metricName.FindString(line)] = true
		}
	}
	given := edge(t)
	given["GATEWAY_STORE"] = redistest.Start(t).URL()
	g := start(t, given)
	for line := range strings.SplitSeq(g.metrics(), "\n") {
		if strings.HasPrefix(line, "# TYPE gateway_") {
			shown[metricName.FindString(line)] = true
		}
	}
	if !maps.Equal(listed, shown) {
		t.Errorf("docs/metrics.md lists %v, /metrics shows %v", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(shown)))
	}
}
