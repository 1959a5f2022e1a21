package synth

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// situGates and situUps are the limits of SiTU.
const (
	situGates = 4
	situUps   = 8
)

// checkpointsEvery is the number of layers from one checkpoint of the residual to the next, in families with
// checkpoints.
const checkpointsEvery = 2

// deltaKeys returns the keys of Kimi delta attention, and of other parts of such models.
func (m *model) deltaKeys(a func(string) string) []gguf.KV {
	s := m.stateSpace()
	keys := []gguf.KV{{Key: a("ssm.conv_kernel"), Value: uint32(s.Taps)}, {Key: a("kda.head_dim"), Value: uint32(s.StateSize)}}
	if !m.has("ssm_g_b.weight") { // in newer families
		keys = append(keys, gguf.KV{Key: a("kda.gate_lower_bound"), Value: float32(-5)})
	}
	if m.Dense == 0 { // llama.cpp requires it of Ling
		keys = append(keys, gguf.KV{Key: a("leading_dense_block_count"), Value: uint32(0)})
	}
	if m.has("attn_res_score.weight") {
		keys = append(keys,
			gguf.KV{Key: a("attn_res.block_size"), Value: uint32(checkpointsEvery)},
			gguf.KV{Key: a("activation.situ_beta"), Value: float32(situGates)},
			gguf.KV{Key: a("activation.situ_linear_beta"), Value: float32(situUps)})
	}
	return keys
}

// linearAttention lists one block's Kimi delta attention or lightning attention, without its last product.
func (m *model) linearAttention(layer int, in amplitudes) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	s := m.stateSpace()
	if m.fam.Lightning() {
		m.reader(name("attn_qkv.weight"), 3*s.Inner, in, 1, nil)
		m.reader(name("attn_gate.weight"), s.Inner, in, 1, nil)
		m.random(name("attn_norm_2.weight"), s.Inner, 1, 0.02)
		return
	}
	for _, part := range []string{"q", "k", "v"} {
		m.reader(name("attn_"+part+".weight"), s.Inner, in, 1, nil)
		m.separateTaps(name("ssm_conv1d_" + part + ".weight"))
	}
	for _, factor := range []string{"ssm_f_a", "ssm_f_b", "ssm_g_a", "ssm_g_b", "ssm_g", "ssm_beta"} {
		if tensor := factor + ".weight"; m.has(tensor) {
			if shape := m.shape(layer, tensor); shape[1] == m.Embd {
				m.reader(name(tensor), shape[0], in, 1, nil)
			} else {
				m.upward(layer, tensor, 1/math.Sqrt(float64(shape[1])))
			}
		}
	}
	sign := float32(-1)
	if !m.has("ssm_f_b.weight") {
		sign = 1
	}
	rates := m.stream(name("ssm_a"))
	m.plain(func() {
		m.matrix(name("ssm_a"), s.StateHeads, 1, func(i int, row, _ []float32) { row[0] = sign * float32(math.Exp(float64(rates.normal(i)))) })
	})
	if shape := m.shape(layer, "ssm_a"); len(shape) == 1 {
		m.out[len(m.out)-1].Shape = shape
	}
	m.random(name("ssm_dt.bias"), s.Inner, -3, 1)
	m.random(name("ssm_norm.weight"), s.StateSize, 1, 0.02)
}

// separateTaps lists the weights of one of several convolutions of each channel.
func (m *model) separateTaps(name string) {
	s := m.stateSpace()
	m.plain(func() {
		k := m.stream(name)
		m.matrix(name, s.Inner, s.Taps, func(c int, row, _ []float32) {
			for i := range row {
				row[i] = 0.5 * k.normal(c*s.Taps+i)
			}
		})
	})
	m.out[len(m.out)-1].Shape = []int{s.Taps, 1, s.Inner}
}
