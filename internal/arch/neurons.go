package arch

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Neurons are the tensors of a layer's feed-forward layer in a file, a neuron's weights being a row each.
type Neurons struct {
	Gate *gguf.Tensor // [n_ff, n_embd]; nil in ungated families
	Up   *gguf.Tensor // [n_ff, n_embd]
}

// Neurons finds a layer's gates and ups in f, also where one tensor holds both. What the file lacks is nil.
func (f *Family) Neurons(file *gguf.File, layer int) Neurons {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, s) }
	n := Neurons{Gate: file.Tensor(name("ffn_gate")), Up: file.Tensor(name("ffn_up"))}
	if !f.Gated {
		n.Gate = nil
	}
	if f.FusedGate && n.Gate == nil && n.Up != nil && n.Up.Rows()%2 == 0 {
		half := n.Up.Rows() / 2
		n.Gate, n.Up = n.Up.Part(name("ffn_gate"), 0, half), n.Up.Part(name("ffn_up"), half, half)
	}
	return n
}

// Deciding returns the rows that must be read to know which neurons are active: gates, or ups where there are none.
func (n Neurons) Deciding() *gguf.Tensor {
	if n.Gate != nil {
		return n.Gate
	}
	return n.Up
}
