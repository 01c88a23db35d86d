package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// refusals under test, with the clock in the hands of the test.
type refusals struct {
	*Refusals
	t     *testing.T
	clock time.Time
	seen  map[string]float64 // at the last look
}

func newRefusals(t *testing.T) *refusals {
	r := &refusals{t: t, clock: time.Date(2026, 7, 20, 14, 0, 0, 0, time.UTC), seen: map[string]float64{}}
	r.Refusals = NewRefusals(func() time.Time { return r.clock })
	return r
}

func (r *refusals) count(project uuid.UUID, times int) {
	for range times {
		r.Count(project, "")
	}
}

// look collects, and holds what was collected to what must always be so.
func (r *refusals) look() map[string]float64 {
	r.t.Helper()
	ch := make(chan prometheus.Metric, 2*topProjects)
	r.Collect(ch)
	close(ch)
	now := map[string]float64{}
	for metric := range ch {
		var m dto.Metric
		if err := metric.Write(&m); err != nil {
			r.t.Fatal(err)
		}
		label, value := m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()
		if _, twice := now[label]; twice {
			r.t.Errorf("two series of %s", label)
		}
		if value < r.seen[label] {
			r.t.Errorf("the series of %s fell from %v to %v", label, r.seen[label], value)
		}
		now[label] = value
	}
	if len(now) > topProjects+1 {
		r.t.Errorf("%d series", len(now))
	}
	r.seen = now
	return now
}

func TestProjectsAreNamedAsThePolicyDoes(t *testing.T) {
	r := newRefusals(t)
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	for i, name := range []string{"billing", "", "billing", "other", ids[0].String()} {
		r.Count(ids[i], name)
		r.Count(ids[i], name)
	}
	got := r.look()
	for label, count := range map[string]float64{
		"billing": 2, ids[1].String(): 2,
		ids[2].String(): 2, // its name is taken
		ids[3].String(): 2, // its name means the rest
		ids[4].String(): 2, // its name is another's id
		"other":         0,
	} {
		if got[label] != count {
			t.Errorf("%s was refused %v times, want %v", label, got[label], count)
		}
	}
}

func TestAnyNumberOfProjectsMakesFewSeries(t *testing.T) {
	r := newRefusals(t)
	const projects = 5000
	for range 10 {
		for range projects {
			r.count(uuid.New(), 1)
		}
		r.look()
		if len(r.candidates) > maxCandidates {
			t.Fatalf("%d projects are watched", len(r.candidates))
		}
		r.clock = r.clock.Add(time.Minute)
	}
	sum := 0.0
	for _, value := range r.look() {
		sum += value
	}
	// Those who lost their label took their count with them.
	if sum > 10*projects || sum < 10*projects-10*topProjects {
		t.Errorf("%v refusals in all, want about %d", sum, 10*projects)
	}
}

func TestAProjectThatIsRefusedMostGetsALabel(t *testing.T) {
	r := newRefusals(t)
	for i := range topProjects {
		r.Count(uuid.New(), fmt.Sprintf("early %d", i))
	}
	flood := uuid.New()
	r.count(flood, 100)
	if got := r.look(); got["other"] != 100 || got[flood.String()] != 0 {
		t.Fatalf("in the first minute: %v", got)
	}
	r.clock = r.clock.Add(time.Minute)
	r.count(flood, 100)
	if got := r.look(); got["other"] != 100 || got[flood.String()] != 100 {
		t.Fatalf("in the second minute: %v", got)
	}
}

func TestLabelsDoNotChangeHandsAmongEquals(t *testing.T) {
	r := newRefusals(t)
	projects := make([]uuid.UUID, 2*topProjects)
	for i := range projects {
		projects[i] = uuid.New()
	}
	r.count(projects[0], 1)
	for range 20 {
		for _, p := range projects {
			r.count(p, 50)
		}
		r.clock = r.clock.Add(time.Minute)
	}
	got := r.look()
	for _, p := range projects[:topProjects] {
		if got[p.String()] < 1000 {
			t.Errorf("a project that came first was counted %v times under its own label", got[p.String()])
		}
	}
}

func TestAProjectThatHasBeenQuietForLongGivesItsLabelUp(t *testing.T) {
	r := newRefusals(t)
	for range topProjects {
		r.count(uuid.New(), 1000)
	}
	r.clock = r.clock.Add(time.Hour)
	late := uuid.New()
	r.count(late, 2)
	r.clock = r.clock.Add(time.Minute)
	r.count(late, 2)
	if got := r.look(); got[late.String()] != 2 || got["other"] != 2 {
		t.Errorf("%v", got)
	}
}
