package synth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// list finds the shapes of the model's tensors, as the family's program would bind them of the file.
func (m *model) list() error {
	f := gguf.Describe("the model", "GGUF", m.keys(), nil)
	k := &nn.Keys{File: f, Arch: m.Arch}
	b := nn.NewLister(f, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }}, m.held)
	family.Open(k, b)
	if k.Err != nil {
		return k.Err
	}
	m.shapes = map[string][]int{}
	for _, t := range b.Listed() {
		slices.Reverse(t.Shape)
		m.shapes[t.Name] = t.Shape
	}
	return b.Err
}

// held returns a tensor of that name if the model has it, with its shape if no key determines it: see nn.NewLister.
func (m *model) held(name string) *gguf.Tensor {
	layer, stem := 0, name
	if n, _ := fmt.Sscanf(name, "blk.%d.%s", &layer, &stem); n < 2 {
		t, ok := m.fam.Outside(name)
		if ok && (!t.Optional || m.fam.GatedStreams) || name == "output.weight" && !m.Tied {
			return &gguf.Tensor{Shape: m.untold(strings.TrimSuffix(name, ".weight"))}
		}
		return nil
	}
	_, ok := m.fam.InBlock(stem)
	part, mixed := m.fam.PartOf(stem), m.mixed(layer)
	switch {
	case !ok, part != 0 && part&m.parts(layer) == 0, mixed && !m.fam.Experts.Beside && lineage.InsteadOfExperts(stem), !mixed && lineage.OfExperts(stem):
		return nil
	case strings.HasPrefix(stem, "attn_q_a"):
		if !m.queryLatent() {
			return nil
		}
	case !m.has(stem) && !m.chooses(stem, layer) && !(stem == "attn_norm.weight" && m.fam.Headless && layer > 0): // ModernBERT's first layer has none
		return nil
	}
	return &gguf.Tensor{Shape: m.untold(strings.TrimSuffix(stem, ".weight"))}
}

// mixed reports whether a layer has experts.
func (m *model) mixed(layer int) bool { return m.Experts > 0 && layer >= m.Dense }

// chooses reports whether a tensor is the bias of a layer's choice of experts, in a family with layers that may choose
// experts by token instead.
func (m *model) chooses(stem string, layer int) bool {
	return stem == "exp_probs_b.bias" && m.fam.Compresses() && layer > 0
}

// untold returns the shape of a tensor that no key states, row length first; nil: keys state it.
func (m *model) untold(stem string) []int {
	switch stem {
	case "token_embd":
		return []int{m.Embd, m.Vocab}
	case "position_embd":
		return []int{m.Embd, m.Context + m.fam.LearnedOffset}
	case "token_types":
		return []int{m.Embd, tokenTypes}
	case "per_layer_token_embd":
		return []int{m.gated().GramElements, m.gated().GramRows}
	case "laurel_l":
		return []int{m.Embd, lowRank}
	case "attn_gate":
		if m.fam.HeadGate {
			return []int{m.Embd, m.Heads}
		}
	case "time_mix_w1", "time_mix_a1", "time_mix_v1":
		return []int{m.Embd, m.stateSpace().Ranks.Decay}
	case "time_mix_g1":
		return []int{m.Embd, m.stateSpace().Ranks.Gate}
	}
	return nil
}

// shape returns the shape of a layer's tensor, outermost dimension first; nil: it has none of that name.
func (m *model) shape(layer int, tensor string) []int {
	return slices.Clone(m.shapes[blockName(layer)+tensor])
}

// cells returns the rows of a shape, and their length.
func cells(shape []int) (rows, cols int) {
	rows, cols = 1, shape[len(shape)-1]
	for _, n := range shape[:len(shape)-1] {
		rows *= n
	}
	return rows, cols
}
