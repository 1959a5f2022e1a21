package prepare

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// What it costs at most to leave experts out is measured of any model with experts, and chooses what an engine may leave
// out within a bound. Without a measurement nothing is left out.
func TestExpertCurve(t *testing.T) {
	s := expertSpec("qwen3moe")
	s.Used = 4
	f := synthtest.OnDisk(t, s)
	o := Options{Out: filepath.Join(t.TempDir(), "measured.gguf"), Measure: true, Files: []string{writeFile(t, "text", text(30, 90))}, Threads: 2}
	rep, err := Run(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	c := rep.Curve
	if c == nil || c.Way != prepared.ByWeight || c.Rank != 2 || len(c.Points) < 3 || c.DenseBytes <= 0 || c.ExactBytes != 0 {
		t.Fatalf("%+v", c)
	}
	for i, p := range c.Points {
		t.Logf("%+v", p)
		if p.Active < 0.5 || p.Active > 1 || p.MostKLD < p.KLDivergence {
			t.Errorf("%+v", p)
		}
		if i > 0 && (p.Active > c.Points[i-1].Active || p.Bytes > c.Points[i-1].Bytes) {
			t.Errorf("a larger share leaves out less: %+v, %+v", c.Points[i-1], p)
		}
	}
	last := c.Points[len(c.Points)-1]
	if last.Active >= c.Points[0].Active || last.KLDivergence <= c.Points[0].KLDivergence {
		t.Errorf("%+v and %+v", c.Points[0], last)
	}
	out, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if read, err := prepared.ReadCurve(out, s.Layers); err != nil || !reflect.DeepEqual(read, c) {
		t.Errorf("%+v, %v", read, err)
	}
	worst := float64(0)
	for _, p := range c.Points {
		worst = max(worst, float64(p.MostKLD))
	}
	for _, y := range []struct {
		of    *gguf.File
		bound model.Bound
		skip  compute.Skip
		said  string
	}{
		{out, model.Bound{KLD: 2 * worst}, compute.Skip{After: 2, Below: last.Setting}, "experts after the 2 highest ranked of a token"},
		{out, model.Bound{KLD: 1e-12}, compute.Skip{}, "no expert is left out: no setting"},
		{out, model.Bound{}, compute.Skip{}, ""},
		{f, model.Bound{KLD: 1}, compute.Skip{}, "was not measured: none is left out"},
	} {
		e, err := engine.Open(t.Context(), y.of, engine.Options{Neurons: engine.Neurons{Bound: y.bound}, Limits: engine.Limits{Context: 64}, Devices: planner.CPU(planner.Processor{Threads: 1})})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Config(); got.Skip != y.skip || !strings.Contains(got.Chosen, y.said) || y.said == "" && got.Chosen != "" {
			t.Errorf("within %s: %+v, %q; want %+v", y.bound, got.Skip, got.Chosen, y.skip)
		}
		e.Close()
	}
	for below, want := range map[float32]float64{last.Setting: 1 - float64(last.Active), last.Setting / 3: 0} { // plans
		b, err := modelcost.Of(out, modelcost.Options{Context: 64, Law: modelcost.UsualLaw(), Neurons: model.Neurons{Skip: compute.Skip{After: 2, Below: below}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Model.Layers[0].Units.Left; got != want || strings.Contains(strings.Join(b.Assumed, " "), "left out was not measured") != (want == 0) {
			t.Errorf("a share of %g: %g of the uses are left out, want %g; %q", below, got, want, b.Assumed)
		}
	}
	stats := Options{Out: filepath.Join(t.TempDir(), "stats.gguf"), Measure: true, Tokens: LeastCounted, Files: o.Files, Threads: 2}
	counted, err := Profile(context.Background(), f, stats)
	if err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Open(stats.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if read, err := prepared.ReadCurve(file, s.Layers); err != nil || !reflect.DeepEqual(read, counted.Curve) || !reflect.DeepEqual(read.Points, c.Points) {
		t.Errorf("%+v, %v; want the points that were measured of the same text", read, err)
	}
	if _, err := engine.Open(t.Context(), f, engine.Options{Neurons: engine.Neurons{Skip: compute.Skip{After: 4, Below: 0.1}}, Limits: engine.Limits{Context: 64}, Devices: planner.CPU(planner.Processor{Threads: 1})}); err == nil || !strings.Contains(err.Error(), "a token uses 4") {
		t.Errorf("as many stay as there are: %v", err)
	}
}
