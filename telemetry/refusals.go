package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	topProjects   = 20   // that have a label of their own
	maxCandidates = 1000 // that are watched for becoming one of them
	other         = "other"
)

// Refusals counts, by project, the requests that exceeded a quota. The projects
// refused most have a label of their own, the rest are counted together: there
// may be any number of projects, and there must not be any number of series.
//
// A refusal is counted once and stays where it was counted, so every series
// only rises. A project gets the label of another after a minute in which it
// was refused about twice as often; a series that goes and comes back starts
// from zero, as after a restart.
type Refusals struct {
	desc *prometheus.Desc
	now  func() time.Time

	mu         sync.Mutex
	minute     time.Time // that recent and candidates are about
	top        map[uuid.UUID]*topProject
	candidates map[uuid.UUID]candidate
	rest       float64
}

type topProject struct {
	label  string
	total  float64
	recent int // refusals; with each minute those before it count half
}

type candidate struct {
	name   string
	recent int
}

var _ prometheus.Collector = (*Refusals)(nil)

// NewRefusals counts from zero.
func NewRefusals(now func() time.Time) *Refusals {
	return &Refusals{
		desc: prometheus.NewDesc("gateway_quota_refusals_total",
			`Requests that exceeded a quota, by project: its name in the policy or its id. The projects refused most are named, the rest together are "other".`,
			[]string{"project"}, nil),
		now:        now,
		top:        map[uuid.UUID]*topProject{},
		candidates: map[uuid.UUID]candidate{},
	}
}

// Count notes a refusal of a project with this name, which may be empty.
func (r *Refusals) Count(project uuid.UUID, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := r.now().Truncate(time.Minute); !minute.Equal(r.minute) {
		r.rank()
		r.decay(minute)
	}
	if len(r.top) < topProjects && r.top[project] == nil {
		r.promote(project, name)
	}
	if p := r.top[project]; p != nil {
		p.total++
		p.recent++
		return
	}
	r.rest++
	if c, watched := r.candidates[project]; watched || len(r.candidates) < maxCandidates {
		r.candidates[project] = candidate{name, c.recent + 1}
	}
}

// rank gives labels to the candidates that deserve them more.
func (r *Refusals) rank() {
	byRecent := func(a, b uuid.UUID) int { return cmp.Compare(r.candidates[b].recent, r.candidates[a].recent) }
	for _, project := range slices.SortedFunc(maps.Keys(r.candidates), byRecent) {
		least := r.least()
		c := r.candidates[project]
		if c.recent <= r.top[least].recent {
			break
		}
		delete(r.top, least)
		r.promote(project, c.name)
		r.top[project].recent = 2 * c.recent // as if it had gone on like this for long
	}
	clear(r.candidates)
}

func (r *Refusals) decay(minute time.Time) {
	passed := max(0, int(minute.Sub(r.minute)/time.Minute)) // the clock may be set back
	r.minute = minute
	for _, p := range r.top {
		p.recent >>= passed
	}
}

func (r *Refusals) least() (least uuid.UUID) {
	byRecent := func(a, b uuid.UUID) int { return cmp.Compare(r.top[a].recent, r.top[b].recent) }
	return slices.MinFunc(slices.Collect(maps.Keys(r.top)), byRecent)
}

// promote gives a project its label, by which it can be told from all others.
func (r *Refusals) promote(project uuid.UUID, name string) {
	p := &topProject{label: project.String()}
	taken := func(label string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(r.top)), func(t *topProject) bool { return t.label == label })
	}
	if _, err := uuid.Parse(name); err != nil && name != "" && name != other && !taken(name) {
		p.label = name
	}
	r.top[project] = p
}

// Describe implements prometheus.Collector.
func (r *Refusals) Describe(ch chan<- *prometheus.Desc) { ch <- r.desc }

// Collect implements prometheus.Collector.
func (r *Refusals) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.top {
		ch <- prometheus.MustNewConstMetric(r.desc, prometheus.CounterValue, p.total, p.label)
	}
	ch <- prometheus.MustNewConstMetric(r.desc, prometheus.CounterValue, r.rest, other)
}
