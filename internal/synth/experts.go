package synth

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// routerDeviation is the deviation of a token's logits over the experts: a few of them have most of the weight.
const routerDeviation = 1.5

// expertKeys returns the keys that describe the model's experts.
func (m *model) expertKeys(a func(string) string) []gguf.KV {
	if m.Experts == 0 {
		return nil
	}
	keys := []gguf.KV{
		{Key: a("expert_count"), Value: uint32(m.Experts)},
		{Key: a("expert_used_count"), Value: uint32(m.Used)},
		{Key: a("expert_feed_forward_length"), Value: uint32(m.FF)},
	}
	if m.has("ffn_up_chexps.weight") {
		keys = append(keys,
			gguf.KV{Key: a("expert_chunk_feed_forward_length"), Value: uint32(m.FF)},
			gguf.KV{Key: a("experts_per_group"), Value: uint32(2)},
			gguf.KV{Key: a("expert_group_scale"), Value: float32(0.05)})
	}
	if m.fam.Experts.Score != compute.Softmax {
		keys = append(keys, gguf.KV{Key: a("expert_gating_func"), Value: m.fam.Experts.Gating()})
	}
	if m.Arch == "ernie4_5-moe" || m.Arch == "llama4" { // llama.cpp requires the key
		keys = append(keys, gguf.KV{Key: a("interleave_moe_layer_step"), Value: uint32(1)})
	}
	if m.fam.Experts.Counted {
		keys = append(keys, gguf.KV{Key: a("expert_shared_count"), Value: uint32(m.Shared)})
	}
	if m.Dense > 0 {
		keys = append(keys, gguf.KV{Key: a("leading_dense_block_count"), Value: uint32(m.Dense)})
	}
	if m.fam.Experts.Latent { // as files of Nemotron 3 have it
		keys = append(keys, gguf.KV{Key: a("expert_weights_norm"), Value: true}, gguf.KV{Key: a("expert_weights_scale"), Value: float32(2.5)})
	}
	if m.fam.Experts.Shared || m.fam.Experts.Latent {
		keys = append(keys, gguf.KV{Key: a("expert_shared_feed_forward_length"), Value: uint32(m.FF * max(1, m.Shared))})
	}
	return keys
}

// experts lists one block's router and experts. Each expert is as sparse as a layer without experts. in is their input.
func (m *model) experts(layer int, in amplitudes, n *neurons) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	routed := in
	if m.fam.Experts.Early {
		routed = m.space.plain(m.energy(float64(layer)))
	}
	m.plain(func() {
		m.reader(name("ffn_gate_inp.weight"), m.Experts, routed, routerDeviation, m.expertOffset(layer))
	})
	for _, bias := range []string{"exp_probs_b.bias", "exp_probs_b"} {
		if m.has(bias) {
			m.random(name(bias), m.Experts, 0, 0.1)
		}
	}
	offset := func(i int) float32 { return n.offset(i % m.FF) }
	up := offset
	if m.fam.Gated {
		m.stacked(func() { m.reader(name("ffn_gate_exps.weight"), m.Experts*m.FF, in, 1, offset) })
		up = nil
	}
	m.stacked(func() { m.reader(name("ffn_up_exps.weight"), m.Experts*m.FF, in, 1, up) })
	m.downs(name("ffn_down_exps.weight"), n)
	if m.has("ffn_up_chexps.weight") { // each serves two experts
		all := m.Experts
		m.Experts /= 2
		for _, part := range []string{"gate", "up"} {
			m.stacked(func() { m.reader(name("ffn_"+part+"_chexps.weight"), m.Experts*m.FF, in, 1, nil) })
		}
		m.downs(name("ffn_down_chexps.weight"), n)
		m.Experts = all
	}
	m.expertBiases(layer)
	if m.has("ffn_gate_inp.scale") { // and it is divided by the root of the width
		root := float32(math.Sqrt(float64(m.Embd)))
		m.random(name("ffn_gate_inp.scale"), m.Embd, root, 0.02*root)
	}
	if m.has("ffn_down_exps.scale") && m.Type != quant.NVFP4 { // in NVFP4, all matrices have a factor
		m.random(name("ffn_down_exps.scale"), m.Experts, 1, 0.1)
	}
	for _, norm := range []string{"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"} {
		m.maybe(layer, norm+".weight", 1, 0.02)
	}
	if x := m.fam.Experts; x.Shared || x.Counted || x.SharedAsWide {
		width, weight, up := m.FF*m.Shared, m.downWeight(n), offset
		if m.fam.Gated {
			m.reader(name("ffn_gate_shexp.weight"), width, in, 1, offset)
			up = nil
		}
		m.reader(name("ffn_up_shexp.weight"), width, in, 1, up)
		m.writer(name("ffn_down_shexp.weight"), width, false, func(i int) int { return n.of(i%m.FF) / 2 }, func(i int) float32 { return weight(i % m.FF) })
		if _, ok := m.fam.InBlock("ffn_gate_inp_shexp.weight"); !ok {
			return
		}
		m.random(name("ffn_gate_inp_shexp.weight"), m.Embd, 0, float32(1/math.Sqrt(float64(m.Embd))))
	}
}

// expertOffset returns the mean of each expert's logit in a layer. The logits' deviation is routerDeviation. The share
// of tokens with a logit above 0 then follows the law, and a token has on average as many such logits as it uses
// experts. nil: all means are 0.
func (m *model) expertOffset(layer int) func(expert int) float32 {
	if m.ExpertLaw == 0 {
		return nil
	}
	share := expertShares(m.Spec)
	ranks := m.expertRanks(layer)
	return func(e int) float32 { return float32(routerDeviation * quantile(share[ranks[e]])) }
}

// expertShares returns the share of tokens that use the expert of each rank.
func expertShares(s Spec) []float64 {
	share := make([]float64, s.Experts)
	frequencies(share, float64(s.Used)/float64(s.Experts), s.ExpertLaw)
	return share
}

func (m *model) expertRanks(layer int) []int32 {
	return m.stream(fmt.Sprintf("blk.%d.experts", layer)).permutation(m.Experts)
}

// ExpertRanks returns the rank of each of a layer's experts, 0 for the most used, and the share of tokens that use the
// expert of each rank by the law. The model's ExpertLaw must not be 0.
func ExpertRanks(s Spec, layer int) (ranks []int32, share []float64, err error) {
	if s, err = s.complete(); err != nil {
		return nil, nil, fmt.Errorf("synthetic model: %w", err)
	}
	return newModel(s).expertRanks(layer), expertShares(s), nil
}

// expertBiases lists the biases of one block's router and experts, if the family has them.
func (m *model) expertBiases(layer int) {
	m.maybeOf(layer, "ffn_gate_inp.bias", 0.1)
	for _, stem := range []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"} {
		m.maybeOf(layer, stem+".bias", 0.05)
	}
}

// maybeOf lists random numbers of the deviation given, in F32, as a tensor of the block if the family has it.
func (m *model) maybeOf(layer int, tensor string, deviation float32) {
	if !m.has(tensor) {
		return
	}
	name := fmt.Sprintf("blk.%d.%s", layer, tensor)
	k, shape := m.stream(name), m.shape(layer, tensor)
	rows, cols := cells(shape)
	m.plain(func() {
		m.matrix(name, rows, cols, func(r int, row, _ []float32) {
			for i := range row {
				row[i] = deviation * k.normal(r*cols+i)
			}
		})
	})
	slices.Reverse(shape)
	m.out[len(m.out)-1].Shape = shape
}

// plain makes the tensors that list lists stay in F32.
func (m *model) plain(list func()) {
	t := m.Type
	m.Type = quant.F32
	list()
	m.Type = t
}

// stacked adds a dimension for experts to the matrix that list lists.
func (m *model) stacked(list func()) {
	list()
	t := &m.out[len(m.out)-1]
	t.Shape = []int{t.Shape[0], t.Shape[1] / m.Experts, m.Experts}
}

// downs lists the experts' down projections.
func (m *model) downs(name string, n *neurons) {
	k := m.stream(name)
	noise, coefs := k.sub(0), k.sub(1)
	weight := m.downWeight(n)
	a := float32(1 / math.Sqrt(float64(m.space.g)))
	m.stacked(func() {
		m.matrix(name, m.Experts*m.Embd, m.FF, func(r int, row, _ []float32) {
			x, e := r/m.Embd, r%m.Embd
			s, _ := m.space.signs(e)
			for i := range row {
				v := coefs.normal((x*m.space.k+e%m.space.k)*m.FF + n.of(i)/2)
				row[i] = float32(float32(a*weight(i)) * (float32(s*v) + float32(rowNoise*noise.normal(r*m.FF+i))))
			}
		})
	})
}
