package prepared

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// NeuronRows are the tensors of a layer's feed-forward layer in a file in which each row belongs to a neuron.
type NeuronRows struct {
	Gate *gguf.Tensor // [n_ff, n_embd]; nil in layers without gates
	Up   *gguf.Tensor // [n_ff, n_embd]
}

// RowsOf finds a layer's gates and ups in f, also where one tensor holds both. What the file lacks is nil.
func RowsOf(f *gguf.File, layer int, gated bool) NeuronRows {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, s) }
	n := NeuronRows{Gate: f.Tensor(name("ffn_gate")), Up: f.Tensor(name("ffn_up"))}
	if !gated {
		n.Gate = nil
	} else if n.Gate == nil && n.Up != nil && n.Up.Rows()%2 == 0 {
		half := n.Up.Rows() / 2
		n.Gate, n.Up = n.Up.Part(name("ffn_gate"), 0, half), n.Up.Part(name("ffn_up"), half, half)
	}
	return n
}

// Deciding returns the rows that decide which neurons are active: gates, or ups without gates.
func (n NeuronRows) Deciding() *gguf.Tensor {
	if n.Gate != nil {
		return n.Gate
	}
	return n.Up
}
