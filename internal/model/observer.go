package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// ExpertObserver is an Observer that sees every layer with experts instead, in the order of layers. Layers of the same
// model without experts, and experts that all tokens use, are not shown.
type ExpertObserver interface {
	Observer
	Experts(layer int, s ExpertStep)
}

// ExpertStep is one layer's share of a step. Its contents are valid during the call.
type ExpertStep struct {
	Params *compute.Params
	Used   int
	Chosen []int32  // [tokens, Used] the experts of each token of the step, the highest ranked first
	Active []uint32 // [experts, n_ff] tokens of the step for which each neuron's activation was not zero; nil where none ever is zero
}

// choiceReader is a device that writes every token's experts' numbers, and then their weights, to chosen: [c.Rows·2·c.Used].
type choiceReader interface {
	ChoiceData(c compute.Choice, chosen []float32)
}

// observeExperts makes every layer with experts report its steps to o.
func (m *Model) observeExperts(o Observer) error {
	see, ok := o.(ExpertObserver)
	if !ok {
		return fmt.Errorf("only the experts of a model with experts can be observed")
	}
	dev, ok := m.dev.(choiceReader)
	if !ok {
		return fmt.Errorf("choices of experts cannot be observed on %s", m.dev.Name())
	}
	for i := range m.parts {
		x := m.parts[i].Experts
		if x == nil {
			continue
		}
		var active []uint32
		if m.Act.Sparse() {
			active = make([]uint32, m.Experts.Count*m.Experts.FF)
			x.Weights.Active = &compute.Activity{Counts: active}
		}
		var data []float32
		x.Observe = func(p *nn.Pass, c compute.Choice) {
			p.Verbs().Host(func() error {
				step := ExpertStep{Params: p.Params, Used: c.Used, Active: active}
				if n := c.Rows * 2 * c.Used; cap(data) < n {
					data = make([]float32, n)
				}
				dev.ChoiceData(c, data[:c.Rows*2*c.Used])
				for t := range c.Rows {
					for _, e := range data[t*2*c.Used:][:c.Used] {
						step.Chosen = append(step.Chosen, int32(e))
					}
				}
				see.Experts(i, step)
				clear(active)
				return nil
			})
		}
	}
	return nil
}
