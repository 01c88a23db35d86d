package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	tsdb "github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrapes is a Prometheus with nothing around it: what was scraped, and the
// engine that answers queries about it. Between scrapes pass 15 seconds of a
// time of its own.
type scrapes struct {
	t      *testing.T
	now    time.Time
	series []*scraped
	engine *promql.Engine
}

type scraped struct {
	labels  labels.Labels
	samples []tsdb.Sample
}

const scrapeInterval = 15 * time.Second

func newScrapes(t *testing.T) *scrapes {
	s := &scrapes{t: t, now: time.Unix(1_800_000_000, 0)}
	s.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: patience, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	t.Cleanup(func() { _ = s.engine.Close() })
	return s
}

// scrape takes the metrics of some gateways at one moment.
func (s *scrapes) scrape(gateways ...*gateway) {
	s.t.Helper()
	s.now = s.now.Add(scrapeInterval)
	for i, g := range gateways {
		s.take(fmt.Sprintf("gateway-%d", i), []byte(g.metrics()))
	}
}

// take keeps a scrape, with the labels of the target.
func (s *scrapes) take(instance string, text []byte) {
	s.t.Helper()
	decoder := expfmt.NewTextParser(model.UTF8Validation)
	families, err := decoder.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	values, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range values {
		b := labels.NewBuilder(labels.EmptyLabels())
		for name, value := range v.Metric {
			b.Set(string(name), string(value))
		}
		b.Set("job", "gateway")
		b.Set("instance", instance)
		s.append(b.Labels(), float64(v.Value))
	}
}

func (s *scrapes) append(of labels.Labels, value float64) {
	i := slices.IndexFunc(s.series, func(known *scraped) bool { return labels.Equal(known.labels, of) })
	if i < 0 {
		i = len(s.series)
		s.series = append(s.series, &scraped{labels: of})
	}
	s.series[i].samples = append(s.series[i].samples, sample{s.now.UnixMilli(), value})
}

// element is one element of what a query returned.
type element struct {
	labels labels.Labels
	value  float64
}

// query evaluates now, and leaves out what is not a number.
func (s *scrapes) query(text string) (results []element) {
	s.t.Helper()
	q, err := s.engine.NewInstantQuery(s.t.Context(), s, nil, text, s.now)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	defer q.Close()
	r := q.Exec(s.t.Context())
	if r.Err != nil || len(r.Warnings) > 0 {
		s.t.Fatalf("%s: %v, %v", text, r.Err, r.Warnings)
	}
	vector, err := r.Vector()
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	for _, e := range vector {
		if !math.IsNaN(e.F) {
			results = append(results, element{e.Metric, e.F})
		}
	}
	return results
}

// wantKnown fails the test for a metric or a label that no gateway has, and for
// a label value that none has had.
func (s *scrapes) wantKnown(text string) {
	s.t.Helper()
	expr, err := parser.ParseExpr(text)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				s.wantLabel(n, m.Name)
			}
		case *parser.AggregateExpr:
			for _, name := range n.Grouping {
				s.wantLabel(n.Expr, name)
			}
		}
		return nil
	})
}

// wantLabel fails the test unless what an expression selects has a label.
func (s *scrapes) wantLabel(expr parser.Node, name string) {
	s.t.Helper()
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if is && !slices.ContainsFunc(s.matching(selector.LabelMatchers), func(one *scraped) bool { return one.labels.Has(name) }) {
			s.t.Errorf("no gateway has %v with a label %s", selector, name)
		}
		return nil
	})
}

func (s *scrapes) matching(matchers []*labels.Matcher) (found []*scraped) {
	for _, one := range s.series {
		if labels.Selector(matchers).Matches(one.labels) {
			found = append(found, one)
		}
	}
	return found
}

// Querier implements storage.Queryable.
func (s *scrapes) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{}
		for _, one := range s.matching(matchers) {
			set.all = append(set.all, storage.NewListSeries(one.labels, one.samples))
		}
		return set
	}}, nil
}

var _ storage.Queryable = (*scrapes)(nil)

// seriesSet goes through a list.
type seriesSet struct {
	all  []storage.Series
	next int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next <= len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.next-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a value at a moment, in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() tsdb.Sample             { return s }
