package model

import (
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// plan returns how the model's layers are bound.
func (m *Model) plan(positions int) nn.Plan {
	storage := m.storage(m.places)
	return nn.Plan{Head: m.place(m.Layers), Context: positions, Layer: func(i int) nn.LayerPlan {
		if i >= m.Layers {
			y := m.furtherModel().layerPlan(m.Layers, nil)
			y.Stored = y.Stored[i-m.Layers:][:1]
			return y
		}
		return m.layerPlan(i, storage)
	}}
}

// layerPlan returns how layer i is bound. storage says which part of the cache each layer's keys and values are in.
func (m *Model) layerPlan(i int, storage []int) nn.LayerPlan {
	return nn.LayerPlan{
		Place: m.place(i), Stored: m.cacheParts(i, storage), Neurons: m.neuronPlan(i),
		Experts: nn.ExpertPlan{Exact: m.ExpertMode() != Off, Used: m.ExpertMode() == Predict, Prior: m.Prior(i), Disk: m.onDisk, Skip: m.Skip},
	}
}

// neuronPlan returns how layer i's feed-forward layer is computed, which may be its shared experts.
func (m *Model) neuronPlan(i int) nn.NeuronPlan {
	mode := m.LayerMode(i)
	n := nn.NeuronPlan{ByNeuron: mode != Off, Transposed: m.Transposed, Predictor: nn.PredictorPlan{Held: m.Predictors}}
	if m.onDisk {
		n.Disk, n.DiskGates = m.NeuronsOnDisk(i)
		n.Bundle, n.Prior = m.bundle, m.neuronPrior(i)
	}
	if m.orders != nil {
		n.Order = m.orders[i]
	}
	if b := &m.Blocks[i]; m.Magnitudes != nil && b.FF > 0 && !b.Experts {
		n.Cut = m.Magnitudes[i]
	}
	r := &n.Predictor
	r.Used = r.Held && (mode == Predict || m.drafts && m.draftsIn(i))
	if m.Prepared != nil {
		l := &m.Prepared.Layers[i]
		n.Prepared = l.Order
		r.Rank, r.AlwaysOn, r.More, r.Normed = l.Rank, l.AlwaysOn, m.alwaysOn(i)-l.AlwaysOn, m.Prepared.Input == prepared.Normed
	}
	return n
}

// neuronPrior returns the share of tokens that is expected to use each of layer l's neurons in RAM's order, as a prepared
// file counted it; nil where none did. [n_ff]
func (m *Model) neuronPrior(l int) []float64 {
	if m.Prepared == nil {
		return nil
	}
	y := &m.Prepared.Layers[l]
	if len(y.Frequency) == 0 {
		return nil
	}
	prior := make([]float64, len(y.Frequency))
	always := 0
	if m.LayerMode(l) == Predict {
		always = m.alwaysOn(l)
	}
	for i := range prior {
		from := i
		if m.orders != nil && m.orders[l] != nil {
			from = int(m.orders[l][i])
		}
		if prior[i] = float64(y.Frequency[from]); i < always {
			prior[i] = 1
		}
	}
	return prior
}
