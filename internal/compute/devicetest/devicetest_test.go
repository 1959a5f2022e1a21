package devicetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
)

// TestScalarDevice plays every third script on the device that defines it: scripts are sound, and the definition itself gives the
// same bytes for any company.
func TestScalarDevice(t *testing.T) {
	Promise{Few: 8}.run(t, 3, Family{func(*testing.T) compute.Device { return ref.New() }})
}

// faulty is the scalar device with some verbs gone wrong.
type faulty struct {
	compute.Device
	wrong func(compute.Verbs, *compute.Params) compute.Verbs
}

func (f faulty) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return f.Device.Run(seg, p, func(v compute.Verbs) { body(f.wrong(v, p)) })
}

// The faults, by what they embed and override.
type (
	withoutBias    struct{ compute.Verbs }
	withoutLast    struct{ compute.Verbs }
	beyondItsRows  struct{ compute.Verbs }
	companyDepends struct{ compute.Verbs }
	spoilsInput    struct{ compute.Verbs }
	aboveOnly      struct {
		compute.Verbs
		p *compute.Params
	}
	onePositionLess struct {
		compute.Verbs
		p *compute.Params
	}
	alwaysAll struct{ compute.Verbs }
	hostTwice struct{ compute.Verbs }
)

func (f withoutBias) MatMul(x compute.Tensor, p compute.Products) {
	for i := range p {
		p[i].Bias = nil
	}
	f.Verbs.MatMul(x, p)
}

func (f withoutLast) MatMul(x compute.Tensor, p compute.Products) {
	f.Verbs.MatMul(x, p)
	if last := p[2]; last.W != nil {
		f.Activate(last.Out, last.Out, compute.Tensor{}, compute.Activation{Kind: compute.FATReLU, Threshold: 1e30})
	}
}

func (f beyondItsRows) Add(dst, x compute.Tensor) {
	f.Verbs.Add(dst.First(dst.Rows+1), x.First(x.Rows+1))
}

func (f companyDepends) RMSNorm(dst, x compute.Tensor, w *compute.Vector, eps float32) {
	if x.Rows == 1 {
		eps *= 1.01
	}
	f.Verbs.RMSNorm(dst, x, w, eps)
}

func (f spoilsInput) SparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	f.Verbs.SparseFFN(out, x, s, w)
	f.Add(x, x)
}

func (f aboveOnly) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	f.p.Threshold += 1e-6
	f.Verbs.Predict(s, x, hidden, logits, fc1, fc2)
	f.p.Threshold -= 1e-6
}

func (f onePositionLess) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	f.p.Pos[0] = max(0, f.p.Pos[0]-1)
	f.Verbs.Attention(out, q, c, layer, scale)
}

func (f alwaysAll) SparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	s.Mem = nil
	f.Verbs.SparseFFN(out, x, s, w)
}

func (f hostTwice) Host(g func()) {
	f.Verbs.Host(g)
	f.Verbs.Host(g)
}

// onlyFirstLayer copies pages in one layer.
type onlyFirstLayer struct{ compute.Device }

func (f onlyFirstLayer) CopyPage(c *compute.Cache, to, from int32) {
	one := *c
	one.Layers = 1
	f.Device.CopyPage(&one, to, from)
}

// lastNeuronLost takes the last row of neurons in as zeros.
type lastNeuronLost struct{ compute.Device }

func (f lastNeuronLost) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	if use == compute.Rows && src.Order == nil {
		src.Data = slices.Clone(src.Data)
		clear(src.Data[len(src.Data)-len(src.Data)/src.Rows:])
	}
	return f.Device.Matrix(src, use)
}

// TestFaults: the suite finds what it is there to find.
func TestFaults(t *testing.T) {
	verbs := func(wrong func(compute.Verbs, *compute.Params) compute.Verbs) compute.Device {
		return faulty{ref.New(), wrong}
	}
	for _, c := range []struct {
		name, group string
		dev         compute.Device
		fault       string // part of the message
	}{
		{"no bias", "MatMul/Q4_0", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return withoutBias{v} }), "want"},
		{"no third product", "MatMul/F16", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return withoutLast{v} }), "product 2"},
		{"a row too many", "Add/7 columns", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return beyondItsRows{v} }), "behind a tensor"},
		{"another result alone", "RMSNorm/77 columns", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return companyDepends{v} }), "a step of tokens"},
		{"an input changed", "SparseFFN/Q8_0", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return spoilsInput{v} }), "input row"},
		{"a set too large", "SparseFFN/sets", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return alwaysAll{v} }), "output"},
		{"a logit at the threshold left out", "Predict/thresholds", verbs(func(v compute.Verbs, p *compute.Params) compute.Verbs { return aboveOnly{v, p} }), "set"},
		{"a position unseen", "Attention/heads of 64, 2×1", verbs(func(v compute.Verbs, p *compute.Params) compute.Verbs { return onePositionLess{v, p} }), "attention"},
		{"an observer called twice", "Host/between verbs", verbs(func(v compute.Verbs, _ *compute.Params) compute.Verbs { return hostTwice{v} }), "seen has 10 rows, want 5"},
		{"a neuron lost", "SparseFFN/Q4_K", lastNeuronLost{ref.New()}, "33 tokens: scalar reference: output"},
		{"one layer copied", "CopyPage/all layers", onlyFirstLayer{ref.New()}, "layer 1"},
	} {
		_, by := groups(1)
		found := false
		for _, sc := range by[c.group] {
			err := sc.verify(t, subject{ref.New(), map[string]any{}}, [][]subject{{{c.dev, map[string]any{}}}})
			found = found || err != nil && strings.Contains(sc.name+": "+err.Error(), c.fault)
		}
		if !found {
			t.Errorf("%s: none of %d scripts of %s says so", c.name, len(by[c.group]), c.group)
		}
	}
}
