package nn

import (
	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// FFNSpec describes a feed-forward layer. Its tensors are ffn_gate, ffn_up and ffn_down.
type FFNSpec struct {
	Width            int // n_embd
	Neurons          int // n_ff
	Gated            bool
	Act              compute.Activation
	TopK             *float32 // see FFN.TopK
	GateBias         Presence
	UpBias, DownBias Presence
	InputNorm        Norm // the norm of the block before the layer; with it the layer before predicts this layer's neurons
	Inner            Norm // [n_ff] of what ffn_down reads, or none
	Precise          bool // see compute.Precise
	Parallel         bool // the layer runs in parallel to attention, so no earlier layer can predict its set
	Swapped          bool // the file has ffn_up and ffn_down swapped
}

// Presence says whether files hold a tensor.
type Presence int

// The presences.
const (
	Absent Presence = iota
	Optional
	Required
)

// The presences of a bias, for calls in which a plain argument would be unclear.
const (
	NoBias      = Absent
	MayHaveBias = Optional
	HasBias     = Required
)

// FFN binds the layer's feed-forward layer.
func (b *Binder) FFN(s FFNSpec) *FFN {
	if s.Neurons < 1 {
		b.Fail("key %q: layer %d has neither neurons nor experts", b.key("feed_forward_length"), b.layer)
	}
	return b.ffn(s, "", OfNeurons, min(b.plan.Place.Bound, s.Neurons))
}

// SharedExperts binds the experts that all tokens use, as one feed-forward layer. It has the place of attention. It is
// nil without neurons.
func (b *Binder) SharedExperts(s FFNSpec) *FFN {
	if s.Neurons == 0 {
		return nil
	}
	return b.ffn(s, "_shexp", InLayer, b.whole(s.Neurons))
}

// ffn binds a layer with the first hot of its neurons on the GPU. suffix ends the names of its tensors; tensors by
// neuron have the given role.
func (b *Binder) ffn(s FFNSpec, suffix string, role Role, hot int) *FFN {
	f, plan := &FFN{Act: s.Act, TopK: s.TopK, Inner: s.Inner}, &b.plan.Neurons
	parts := &b.parts[b.layer]
	parts.FFN, parts.FFNNorm, parts.parallel = f, s.InputNorm, s.Parallel
	if plan.Cut > 0 {
		f.Act.Threshold = plan.Cut
	}
	units := b.as(role)
	gate, up, down := "ffn_gate"+suffix+".weight", "ffn_up"+suffix+".weight", "ffn_down"+suffix
	upBias := "ffn_up" + suffix + ".bias"
	if s.Swapped {
		up, down, upBias = down+".weight", "ffn_up"+suffix, down+".bias"
	}
	if bias := "ffn_gate" + suffix + ".bias"; b.Present(bias, s.GateBias) {
		f.Gate.B = b.Vector(bias, s.Neurons)
	}
	order := plan.Order
	if t := b.tensor("ffn_down.weight"); t != nil && t.Type.BlockElems() > 1 { // columns that share scales stay together
		order = nil
		if hot < s.Neurons {
			hot -= hot % t.Type.BlockElems()
		}
	}
	if (f.TopK != nil || f.Whole()) && hot < s.Neurons { // all gates decide which stay, so they are computed in one place
		hot = 0
	}
	f.Divided = hot > 0 && hot < s.Neurons
	f.EveryRow = b.plan.Place.EveryRow
	f.ByNeuron = plan.ByNeuron && !f.Whole() || plan.Transposed || f.Divided
	onDisk := plan.Disk && role == OfNeurons && plan.Transposed && !f.Whole() && !b.outline
	gatesOnDisk := onDisk && plan.DiskGates
	upsOnDisk := onDisk && (plan.DiskGates || s.Gated)
	where := func(stays bool, p bundle.Part, name string, first int) *compute.OnDisk {
		if !stays {
			return nil
		}
		return b.neuronsOnDisk(p, name, first, s.Neurons)
	}
	rows, columns := compute.Rows, compute.Columns
	if !f.ByNeuron {
		rows, columns, order = compute.Dense, compute.Dense, nil // an order makes no difference to a dense layer
		if s.Precise {
			rows, columns = compute.Precise, compute.Precise
		}
	}
	switch t := b.tensor(up); {
	case s.Gated && !b.Has(gate) && (!sized(t) || t.Rows() != s.Neurons): // it holds the gates' rows, then the ups'
		disk := []*compute.OnDisk{where(gatesOnDisk, bundle.Gate, up, 0), where(upsOnDisk, bundle.Up, up, s.Neurons)}
		if both := units.neuronSlices(up, s.Width, rows, hot, order, disk, s.Neurons, s.Neurons); both != nil {
			both[0].B = f.Gate.B
			f.Gate, f.Up = both[0], both[1]
		}
	default:
		if s.Gated {
			bias := f.Gate.B
			f.Gate = b.Adapted(units.neurons(gate, s.Neurons, s.Width, rows, hot, order, where(gatesOnDisk, bundle.Gate, gate, 0)))
			f.Gate.B = bias
		}
		f.Up = b.Adapted(units.neurons(up, s.Neurons, s.Width, rows, hot, order, where(upsOnDisk, bundle.Up, up, 0)))
	}
	if b.Present(upBias, s.UpBias) {
		f.Up.B = b.neuronVector(upBias, s.Neurons, order)
	}
	if plan.Transposed {
		down = "ffn_down_t"
		f.Down = b.Adapted(units.neurons("ffn_down_t.weight", s.Neurons, s.Width, compute.Rows, hot, order, where(onDisk, bundle.Down, "ffn_down_t.weight", 0)))
	} else {
		if !f.ByNeuron && hot > 0 {
			hot = s.Width // all of its rows
		}
		f.Down = b.Adapted(units.neurons(down+".weight", s.Width, s.Neurons, columns, hot, order, nil))
	}
	if bias := down + ".bias"; b.Present(bias, s.DownBias) {
		f.Down.B = b.Vector(bias, s.Width)
	}
	if f.Whole() { // others may be computed by neuron, without factors
		for name, l := range map[string]*Linear{"ffn_gate": &f.Gate, "ffn_up": &f.Up, "ffn_down": &f.Down} {
			if l.Bound() {
				l.factor = b.factorOf(name + suffix)
			}
		}
	}
	f.OnDisk = onDisk
	if onDisk {
		var parts []*compute.Matrix
		if gatesOnDisk && f.Gate.Bound() {
			parts = append(parts, f.Gate.W)
		}
		if upsOnDisk {
			parts = append(parts, f.Up.W)
		}
		b.bundle(plan.Prior, append(parts, f.Down.W)...)
	}
	if plan.Predictor.Held {
		b.bindPredictor(f, s, order)
	}
	return f
}

// Present reports whether a tensor is bound: it must, or it may and the file holds it.
func (b *Binder) Present(name string, p Presence) bool {
	return p == Required || p == Optional && b.Has(name)
}

// bindPredictor binds f's predictor, or leaves an unused one in the file.
func (b *Binder) bindPredictor(f *FFN, s FFNSpec, order []int32) {
	const fc1, fc2 = "fc1.weight", "fc2.weight"
	plan := &b.plan.Neurons.Predictor
	if !plan.Used {
		b.Ignore(fc1)
		b.Ignore(fc2)
		return
	}
	b = b.as(OfPredictor)
	b.GPU = b.plan.Place.Predictor
	rank := plan.Rank
	if rank == 0 {
		rank = b.Rows(fc1)
	}
	f.Predictor.Normed = plan.Normed
	f.Predictor.FC1 = b.Matrix(fc1, rank, s.Width, compute.Dense)
	n := s.Neurons - plan.AlwaysOn
	if plan.More > 0 { // their rows stay in the file
		f.Predictor.FC2 = b.matrixFrom(fc2, plan.More, n, rank, compute.Dense)
	} else {
		f.Predictor.FC2 = b.neurons(fc2, n, rank, compute.Dense, b.whole(n), order, nil)
	}
}

// ChainPredictors links each layer with a predictor to the next layer's, in blocks with feed-forward layers that read
// the residual after attention.
func (b *Binder) ChainPredictors() {
	for i := range len(b.parts) - 1 {
		f, next := b.parts[i].FFN, &b.parts[i+1]
		if f != nil && f.Predictor.Bound() && !next.parallel && next.FFN != nil && next.FFN.Predictor.Bound() {
			f.Next, f.NextNorm = next.FFN, next.FFNNorm
		}
	}
}
