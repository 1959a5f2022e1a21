package prepare

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestCurve: a prepared file's curve is in order, gives what an engine computes within a bound, and can be measured
// again.
func TestCurve(t *testing.T) {
	testenv.Thorough(t)
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	rep, err := Run(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	points := rep.Curve.Points
	if len(points) != 3 || points[1].Setting != 0 {
		t.Fatalf("%+v", points)
	}
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; b.KLDivergence <= a.KLDivergence || b.Bytes >= a.Bytes || b.Active >= a.Active {
			t.Errorf("a higher threshold does not leave out more: %+v, %+v", a, b)
		}
	}
	if q := rep.Measured; float32(q.KLDivergence) != points[1].KLDivergence || points[1].MostKLD <= points[1].KLDivergence {
		t.Errorf("the file's own threshold has %+v, measured %+v", points[1], q)
	}
	out, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, c := range []struct {
		sparse  model.SparseMode
		bound   model.Bound
		mode    model.SparseMode
		setting float32
		said    string
	}{
		{model.Auto, model.Bound{KLD: float64(points[1].MostKLD)}, model.Predict, 0, "mode predict with a threshold of 0;"},
		{model.Predict, model.Bound{KLD: float64(points[0].MostKLD)}, model.Predict, -1, "with a threshold of -1;"},
		{model.Predict, model.Bound{KLD: 1e-9}, model.Exact, 0, "no setting that was measured keeps a KL divergence of 1e-09"},
		{model.Exact, model.Bound{KLD: 1}, model.Exact, 0, ""},
	} {
		got, err := model.ReadConfig(out, "")
		if err != nil {
			t.Fatal(err)
		}
		choice, err := got.Choose(c.sparse, c.bound)
		got.Take(choice)
		if err != nil || got.Sparse != c.mode || got.Threshold != c.setting || !strings.Contains(choice.Said, c.said) || c.said == "" && choice.Said != "" {
			t.Errorf("%s within %s: %s, threshold %g, %q, %v", c.sparse, c.bound, got.Sparse, got.Threshold, choice.Said, err)
		}
	}
	e, err := engine.Open(t.Context(), out, engine.Options{Neurons: engine.Neurons{Bound: model.Bound{KLD: float64(points[0].MostKLD)}}, Limits: engine.Limits{Context: 64}, Devices: planner.CPU(planner.Processor{Threads: 1})})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if c := e.Config(); c.Sparse != model.Predict || c.Threshold != -1 || c.Chosen == "" {
		t.Errorf("an engine within the first setting's limit: %s, threshold %g, %q", c.Sparse, c.Threshold, c.Chosen)
	}
	again := Options{Out: filepath.Join(t.TempDir(), "again.gguf"), Measure: true, Files: []string{writeFile(t, "other", text(30, 90))}, Threads: 2, steps: 1}
	var told []Stage
	again.Estimate = func(all []Estimate) {
		for _, e := range all {
			told = append(told, e.Stage)
		}
	}
	rep, err = Run(context.Background(), out, again)
	if !slices.Equal(told, []Stage{StageWrite, StageMeasure}) {
		t.Errorf("time was estimated for %q", told)
	}
	if err != nil {
		t.Fatal(err)
	}
	measured, err := gguf.Open(again.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer measured.Close()
	before, err := prepared.ReadCurve(out, smallSpec().Layers)
	if err != nil {
		t.Fatal(err)
	}
	c, err := prepared.ReadCurve(measured, smallSpec().Layers)
	if err != nil || !reflect.DeepEqual(c, rep.Curve) || c.HeldOut == before.HeldOut || c.Calibration != before.Calibration {
		t.Errorf("measured anew: %+v, %v", c, err)
	}
	if _, err := Run(context.Background(), f, again); err == nil || !strings.Contains(err.Error(), "--measure is for files that prepare made, with predictors, and") {
		t.Errorf("a file that is not prepared: %v", err)
	}
	again.Files = nil
	if _, err := Run(context.Background(), out, again); err == nil || !strings.Contains(err.Error(), "give text to measure on") {
		t.Errorf("without text: %v", err)
	}
}
