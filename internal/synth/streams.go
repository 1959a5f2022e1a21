package synth

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Widths of synthetic models with per-layer embeddings and low-rank paths: Gemma 3n's, which are multiples of every
// type's block.
const (
	inputWidth = 256
	lowRank    = 64
)

// topKDeviations leaves a twentieth of normally distributed gates.
const topKDeviations = 1.6448533535003662

// inputs returns the width of layers' own embeddings, or 0.
func (m *model) inputs() int {
	if m.fam.LayerInputs {
		return inputWidth
	}
	return 0
}

// shared returns how many layers read keys and values of other layers. They follow a layer with a window and one
// without.
func (m *model) shared() int {
	if !m.fam.WindowHeads {
		return 0
	}
	return max(0, m.Layers-(m.Layers+3)/4*2)
}

// streamKeys returns the metadata of layers that have more than their own weights.
func (m *model) streamKeys(a func(string) string) (keys []gguf.KV) {
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: a(key), Value: v}) }
	if m.fam.LayerInputs {
		add("embedding_length_per_layer_input", uint32(m.inputs()))
	}
	if m.fam.SharedKV {
		add("attention.shared_kv_layers", uint32(max(0, m.shared())))
	}
	if m.fam.WindowHeads { // every second layer has one
		pattern := make([]bool, m.Layers)
		for l := range pattern {
			pattern[l] = l%2 == 0
		}
		add("attention.sliding_window_pattern", pattern)
		add("attention.key_length_swa", uint32(m.HeadDim))
		add("attention.value_length_swa", uint32(m.HeadDim))
		add("rope.dimension_count_swa", uint32(m.RopeDims))
	}
	if m.fam.AltUp {
		add("altup.active_idx", uint32(0))
		add("altup.num_inputs", uint32(compute.AltUpStreams))
	}
	if m.fam.TopK {
		scales := make([]float32, m.Layers)
		for l := range scales {
			scales[l] = topKDeviations
		}
		add("activation_sparsity_scale", scales)
	}
	return keys
}

// floats lists a matrix [rows, cols] that is not quantised, of random numbers around the identity of the given
// deviation.
func (m *model) floats(name string, t quant.Type, rows, cols int, one, deviation float32) *gguf.Source {
	k := m.stream(name)
	m.out = append(m.out, source(name, t, rows, cols, m.space.k, func(i int, row, _ []float32) {
		for j := range row {
			row[j] = float32(deviation * k.normal(i*cols+j))
		}
		if one != 0 {
			row[i%cols] += one
		}
	}))
	return &m.out[len(m.out)-1]
}

// wide returns the type of matrices that are not quantised.
func (m *model) wide() quant.Type {
	if m.Type == quant.F32 {
		return m.Type
	}
	return quant.F16
}

// streams lists the tensors before the layers.
func (m *model) streams() {
	if n := m.inputs(); n > 0 {
		wide := m.Layers * n
		k := m.stream("per_layer_token_embd.weight")
		m.matrix("per_layer_token_embd.weight", m.Vocab, wide, func(i int, row, _ []float32) {
			for j := range row {
				row[j] = k.normal(i*wide+j) / float32(math.Sqrt(float64(n)))
			}
		})
		m.floats("per_layer_model_proj.weight", m.wide(), wide, m.Embd, 0, 1)
		m.random("per_layer_proj_norm.weight", n, 1, 0.02)
	}
	if m.fam.AltUp {
		for _, name := range []string{"altup_proj.weight", "altup_unembd_proj.weight"} {
			src := m.floats(name, m.wide(), (compute.AltUpStreams-1)*m.Embd, m.Embd, 1, 0.01)
			src.Shape = []int{m.Embd, m.Embd, compute.AltUpStreams - 1}
		}
	}
}

// mixing lists a block's tensors for streams and for its own embedding, which add a little to the block's output.
func (m *model) mixing(layer int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	root := 1 / float32(math.Sqrt(float64(m.Embd)))
	if n := m.inputs(); n > 0 {
		m.floats(name("inp_gate.weight"), m.Type, n, m.Embd, 0, root)
		m.floats(name("proj.weight"), m.Type, m.Embd, n, 0, 1/float32(math.Sqrt(float64(n))))
		m.random(name("post_norm.weight"), m.Embd, 0.05, 0.01)
	}
	m.maybe(layer, "attn_res_score.weight", 0, 0.05)
	m.maybe(layer, "ffn_res_score.weight", 0, 0.05)
	if !m.fam.AltUp {
		return
	}
	const n = compute.AltUpStreams
	m.norm(name("altup_router_norm"))
	m.floats(name("altup_router.weight"), m.wide(), n, m.Embd, 0, float32(m.Embd)*root)
	m.floats(name("altup_predict_coef.weight"), quant.F32, n*n, n, 0, 0.05)
	m.floats(name("altup_correct_coef.weight"), quant.F32, n, n, 0, 0.05)
	m.random(name("altup_correct_scale.weight"), m.Embd, 1, 0.02)
	m.floats(name("laurel_l.weight"), m.wide(), lowRank, m.Embd, 0, root)
	m.floats(name("laurel_r.weight"), m.wide(), m.Embd, lowRank, 0, 1.0/8)
	m.random(name("laurel_post_norm.weight"), m.Embd, 0.1, 0.02)
}
