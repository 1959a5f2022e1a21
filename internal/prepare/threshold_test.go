package prepare

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

func smoothSpec() synth.Spec {
	s := smallSpec()
	s.Activation, s.Sparsity, s.PowerLaw = "silu", 0, 0
	return s
}

// shareTolerance is the tolerance of the share of skipped activations on other text: thresholds come in steps of a 32nd
// of an octave, and texts differ.
const shareTolerance = 0.03

// TestThresholds: thresholds skip the requested shares, a larger share costs more, and the chosen one keeps the bound.
// The rest of the file does not change.
func TestThresholds(t *testing.T) {
	f, o := openSmall(t, smoothSpec()), smallOptions(t)
	o.Thresholds, o.Bound.KLD, o.Tokens = true, 0.002, LeastCounted
	rep, err := Run(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	points := rep.Curve.Points
	if len(points) < leastShares {
		t.Errorf("%d points", len(points))
	}
	for i := 1; i < len(points); i++ {
		if points[i].KLDivergence < points[i-1].KLDivergence {
			t.Errorf("leaving out %g costs %g, less than %g of leaving out %g", points[i].Setting, points[i].KLDivergence, points[i-1].KLDivergence, points[i-1].Setting)
		}
	}
	out, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for i, x := range f.Tensors {
		if y := out.Tensors[i]; x.Name != y.Name || x.Type != y.Type || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("tensor %q is another", x.Name)
		}
	}
	chosen := rep.Curve.Within(o.Bound)
	if chosen == nil || chosen.Setting < 2*shareStep {
		t.Fatalf("%+v is chosen", chosen)
	}
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := model.Load(t.Context(), out, dev, model.Options{Neurons: model.Neurons{Sparse: model.Threshold, Bound: o.Bound}, Batch: 128, Outputs: 1, Cache: compute.CacheSpec{Pages: 4}})
	if err != nil {
		t.Fatal(err)
	}
	p := compute.Params{Pages: [][]int32{{0, 1, 2, 3}}}
	for i := range int32(100) {
		p.Tokens, p.Pos, p.Seq = append(p.Tokens, 5*i%512), append(p.Pos, i), append(p.Seq, 0)
	}
	if err := m.Forward(&p); err != nil {
		t.Fatal(err)
	}
	for l, use := range m.Neurons() {
		left := 1 - float64(use.Gated)/float64(use.Tokens)/float64(use.Neurons)
		if use.Mode != model.Exact || math.Abs(left-float64(chosen.Setting)) > shareTolerance {
			t.Errorf("layer %d in mode %s leaves out %.3f, want %.3f", l, use.Mode, left, chosen.Setting)
		}
	}
	b, err := modelcost.Of(out, modelcost.Options{Neurons: model.Neurons{Sparse: model.Threshold, Bound: o.Bound}, Law: modelcost.UsualLaw()})
	if err != nil || math.Abs(b.Active-1+float64(chosen.Setting)) > 1e-6 {
		t.Errorf("placement expects %g of the neurons to be active, not %g: %v", b.Active, 1-chosen.Setting, err)
	}
	counted := smallOptions(t)
	counted.Thresholds, counted.Bound, counted.Tokens = true, o.Bound, LeastCounted
	stats, err := Profile(context.Background(), out, counted)
	if err != nil {
		t.Fatal(err)
	}
	if left := stats.Stats.Overall(); math.Abs(left-float64(chosen.Setting)) > shareTolerance {
		t.Errorf("profile counts %.3f below the thresholds, want %.3f", left, chosen.Setting)
	}
	counted.Bound.KLD = 1e-9
	if _, err := Profile(context.Background(), out, counted); err == nil || !strings.Contains(err.Error(), "no setting that was measured keeps") {
		t.Errorf("profile within a bound that nothing keeps: %v", err)
	}
	if _, err := Profile(context.Background(), f, counted); err == nil || !strings.Contains(err.Error(), "needs thresholds") {
		t.Errorf("profile of a file without thresholds: %v", err)
	}
	e, err := engine.Open(t.Context(), out, engine.Options{Neurons: engine.Neurons{Sparse: model.Threshold, Bound: model.Bound{KLD: 1e-9}}, Devices: planner.CPU(planner.Processor{Threads: 1})})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if c := e.Config(); c.Sparse != model.Off || !strings.Contains(c.Chosen, "no setting that was measured keeps a KL divergence of 1e-09") {
		t.Errorf("within a bound that nothing keeps: mode %s, %q", c.Sparse, c.Chosen)
	}
}

// TestThresholdsResume: a stopped search continues, with the same file as result.
func TestThresholdsResume(t *testing.T) {
	f := openSmall(t, smoothSpec())
	o := smallOptions(t)
	o.Thresholds, o.Bound.KLD, o.Tokens = true, 0.02, LeastCounted
	steps, counted := 0, coarse()
	o.Progress = func(s Stage, _, _ int64) {
		if counted(s) {
			steps++
		}
	}
	if _, err := Run(context.Background(), f, o); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, o.Out)
	again := smallOptions(t)
	again.Thresholds, again.Bound.KLD, again.Tokens = true, 0.02, LeastCounted
	stops := 0
	for !stopAfter(t, f, again, steps/3) {
		again.Resume = true
		if stops++; stops > 20 {
			t.Fatal("no progress")
		}
	}
	if stops == 0 || !bytes.Equal(readAll(t, again.Out), want) {
		t.Errorf("stopped %d times, the file is another", stops)
	}
}

func TestThresholdsRefused(t *testing.T) {
	relu, experts := smallSpec(), smoothSpec()
	experts.Arch = "qwen3moe"
	for name, c := range map[string]struct {
		spec    synth.Spec
		options func(*Options)
		want    string
	}{
		"relu":     {relu, nil, "thresholds are for SiLU and GELU, and its activation is relu"},
		"no text":  {smoothSpec(), func(o *Options) { o.Files = nil }, "the cost of thresholds is measured on text; give some with -f"},
		"no bound": {smoothSpec(), func(o *Options) { o.Bound.KLD = -1 }, "a KL divergence of -1 nats a token is no bound"},
		"original": {smoothSpec(), func(o *Options) { o.Original = true }, "the original PowerInfer knows no thresholds"},
		"nothing":  {smoothSpec(), func(o *Options) { o.Bound.KLD = 1e-12 }, "no activations can be taken as zero within a KL divergence of 1e-12"},
		"experts":  {experts, nil, "thresholds are not for models with experts"},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := openSmall(t, c.spec), smallOptions(t)
			o.Thresholds, o.Tokens = true, LeastCounted
			if c.options != nil {
				c.options(&o)
			}
			_, err := Run(context.Background(), f, o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
