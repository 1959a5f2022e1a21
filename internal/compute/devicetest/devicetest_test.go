package devicetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestScalarDevice plays every third script on the device that defines it: scripts are sound, and the definition itself
// gives the same bytes for any company.
func TestScalarDevice(t *testing.T) {
	testenv.Thorough(t)
	Promise{Few: 8}.run(t, selection{scripts: 3, groups: 1}, Family{func(*testing.T) compute.Device { return ref.New() }})
}

// faulty is the scalar device with an operation gone wrong.
type faulty struct {
	compute.Device
	wrong func(v compute.Verbs, p *compute.Params, op compute.Op)
}

func (f faulty) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return f.Device.Run(seg, p, func(v compute.Verbs) { body(compute.NewVerbs(fault{v: v, wrong: f.wrong, p: p})) })
}

// fault does operations wrongly.
type fault struct {
	compute.Unforeseeing
	v     compute.Verbs
	wrong func(v compute.Verbs, p *compute.Params, op compute.Op)
	p     *compute.Params
}

func (f fault) Do(op compute.Op)    { f.wrong(f.v, f.p, compute.Clone(op)) }
func (f fault) Host(g func() error) { f.v.Host(g) }

func withoutBias(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.MatMul); ok {
		for i := range o.Products {
			o.Products[i].Bias = nil
		}
	}
	v.Do(op)
}

func withoutLast(v compute.Verbs, _ *compute.Params, op compute.Op) {
	v.Do(op)
	if o, ok := op.(*compute.MatMul); ok && o.Products[2].W != nil {
		out := o.Products[2].Out
		v.Activate(out, out, compute.Tensor{}, compute.Activation{Kind: compute.FATReLU, Threshold: 1e30})
	}
}

func beyondItsRows(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.Add); ok {
		o.Dst.Rows++
		o.X.Rows++
	}
	v.Do(op)
}

func companyDepends(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.RMSNorm); ok && o.X.Rows == 1 {
		o.Eps *= 1.01
	}
	v.Do(op)
}

func spoilsInput(v compute.Verbs, _ *compute.Params, op compute.Op) {
	v.Do(op)
	if o, ok := op.(*compute.SparseFFN); ok {
		v.Add(o.X, o.X)
	}
}

func aboveOnly(v compute.Verbs, p *compute.Params, op compute.Op) {
	if _, ok := op.(*compute.Predict); ok {
		p.Threshold += 1e-6
		defer func() { p.Threshold -= 1e-6 }()
	}
	v.Do(op)
}

func onePositionLess(v compute.Verbs, p *compute.Params, op compute.Op) {
	if _, ok := op.(*compute.Attend); ok {
		p.Pos[0] = max(0, p.Pos[0]-1)
	}
	v.Do(op)
}

func alwaysAll(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.SparseFFN); ok {
		o.Set.Mem = nil
	}
	v.Do(op)
}

func otherExperts(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.Route); ok {
		o.Bias = nil
	}
	v.Do(op)
}

func expertsWithoutUps(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.Experts); ok && o.Weights.Gate != nil {
		o.Weights.Up = o.Weights.Gate
	}
	v.Do(op)
}

func weightsAfter(v compute.Verbs, _ *compute.Params, op compute.Op) {
	if o, ok := op.(*compute.Experts); ok {
		o.Weights.Before = false
	}
	v.Do(op)
}

// hostTwice calls observers twice.
type hostTwice struct{ compute.Device }

func (f hostTwice) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return f.Device.Run(seg, p, func(v compute.Verbs) { body(compute.NewVerbs(twice{v.Executor()})) })
}

type twice struct{ compute.Executor }

func (f twice) Host(g func() error) {
	f.Executor.Host(g)
	f.Executor.Host(g)
}

// onlyFirstLayer copies pages in one layer.
type onlyFirstLayer struct{ compute.Device }

func (f onlyFirstLayer) CopyPage(c *compute.Cache, to, from compute.Page) {
	one := *c
	one.Layers = c.Layers[:1]
	f.Device.CopyPage(&one, to, from)
}

// keysUnread reads pages without the keys of the last layer.
type keysUnread struct{ compute.Device }

func (f keysUnread) ReadPage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	err := f.Device.ReadPage(c, page, layers)
	last := len(layers) - 1
	clear(layers[last][:len(layers[last])/2])
	return err
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

// TestFaults: the suite finds faults of every kind.
func TestFaults(t *testing.T) {
	verbs := func(wrong func(compute.Verbs, *compute.Params, compute.Op)) compute.Device {
		return faulty{ref.New(), wrong}
	}
	for _, c := range []struct {
		name, group string
		dev         compute.Device
		fault       string // part of the message
	}{
		{"no bias", "MatMul/Q4_0", verbs(withoutBias), "want"},
		{"no third product", "MatMul/F16", verbs(withoutLast), "product 2"},
		{"a row too many", "Add/7 columns", verbs(beyondItsRows), "behind a tensor"},
		{"another result alone", "RMSNorm/77 columns", verbs(companyDepends), "a step of tokens"},
		{"an input changed", "SparseFFN/Q8_0", verbs(spoilsInput), "input row"},
		{"a set too large", "SparseFFN/sets", verbs(alwaysAll), "output"},
		{"a logit at the threshold left out", "Predict/thresholds", verbs(aboveOnly), "set"},
		{"a position unseen", "Attention/heads of 64, 2×1", verbs(onePositionLess), "attention"},
		{"a bias of experts left out", "Route/sigmoid", verbs(otherExperts), "weights"},
		{"gates for ups", "Experts/Q4_0", verbs(expertsWithoutUps), "output"},
		{"weights of outputs for those of inputs", "Experts/shapes", verbs(weightsAfter), "before"},
		{"an observer called twice", "Host/between verbs", hostTwice{ref.New()}, "seen has 10 rows, want 5"},
		{"a neuron lost", "SparseFFN/Q4_K", lastNeuronLost{ref.New()}, "70 tokens: scalar reference: output"},
		{"one layer copied", "CopyPage/all layers", onlyFirstLayer{ref.New()}, "layer 1"},
		{"keys not read", "MovePage/all layers", keysUnread{ref.New()}, "page of layer 2"},
	} {
		_, by := selection{scripts: 1, groups: 1}.of(scripts())
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
