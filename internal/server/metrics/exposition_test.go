package metrics

import (
	"bytes"
	"math"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestExposition: Prometheus' own parser reads the counts, whatever labels and help contain.
func TestExposition(t *testing.T) {
	const odd = "a\"b\\c\nd}é\xff"
	took := histograms("took_seconds", "How long \\ it\ntook.", []float64{1, 2, 4}, "route")
	for _, v := range []float64{0.5, 1, 1.5, 8} {
		took.at(odd).observe(v)
	}
	asked := counters("asked_total", "How often.", "route", "status")
	asked.at("b", "200").Add(2)
	asked.at("a", "404").Add(1)
	e := exposition{}
	e.add("speed", "A gauge.", isGauge, "", math.Inf(1))
	took.each(func(labels []label, h *histogram) { e.histogram(took.name, took.help, h, labels) })
	asked.each(func(labels []label, v *atomic.Int64) {
		e.add(asked.name, asked.help, isCounter, "", float64(v.Load()), labels...)
	})
	var text bytes.Buffer
	if err := e.write(&text); err != nil {
		t.Fatal(err)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(&text)
	if err != nil {
		t.Fatal(err)
	}
	if g := all["speed"].GetMetric(); len(g) != 1 || !math.IsInf(g[0].GetGauge().GetValue(), 1) {
		t.Errorf("speed is %v", g)
	}
	if c := all["asked_total"].GetMetric(); len(c) != 2 || c[0].GetLabel()[0].GetValue() != "a" || c[1].GetCounter().GetValue() != 2 {
		t.Errorf("asked is %v", c)
	}
	if all["took_seconds"].GetHelp() != took.help {
		t.Errorf("the help is %q", all["took_seconds"].GetHelp())
	}
	m := all["took_seconds"].GetMetric()
	if len(m) != 1 || m[0].GetLabel()[0].GetValue() != "a\"b\\c\nd}é\ufffd" {
		t.Fatalf("took is %v", m)
	}
	h := m[0].GetHistogram()
	if h.GetSampleCount() != 4 || h.GetSampleSum() != 11 {
		t.Errorf("%d values of %g", h.GetSampleCount(), h.GetSampleSum())
	}
	for i, want := range []uint64{2, 3, 3, 4} {
		if b := h.GetBucket()[i]; b.GetCumulativeCount() != want {
			t.Errorf("%d values up to %g, not %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
}
