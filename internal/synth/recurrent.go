package synth

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// block lists one block's parts.
func (m *model) block(layer int) {
	parts := m.parts(layer)
	if parts&lineage.Attention != 0 {
		m.attention(layer)
	}
	if parts&lineage.Recurrent != 0 {
		m.recurrent(layer)
	}
	if parts&lineage.FeedForward != 0 {
		if m.fam.OnePart {
			m.norm(fmt.Sprintf("blk.%d.attn_norm", layer))
		}
		m.feedForward(layer)
	}
	m.mixing(layer)
	m.gatedBlock(layer)
	m.rest(blockName(layer), layer, m.fam.Block)
}

// attentionEvery is how far apart layers with attention are, in families with recurrent ones.
const attentionEvery = 3

// parts returns the parts of a layer. In families with one part in each layer the parts alternate. In other families
// with recurrent layers every third layer has attention.
func (m *model) parts(layer int) lineage.Part {
	switch {
	case m.fam.AllLayers != 0:
		return m.fam.AllLayers
	case m.fam.OnePart:
		return []lineage.Part{lineage.Recurrent, lineage.FeedForward, lineage.Attention}[layer%attentionEvery]
	case m.fam.StateSpace && layer%attentionEvery != attentionEvery-1:
		return lineage.Recurrent | lineage.FeedForward
	}
	return lineage.Attention | lineage.FeedForward
}

// perLayer returns a number that layers with a part have, or one for all layers.
func (m *model) perLayer(part lineage.Part, n int) any {
	if m.fam.Delta || m.fam.Lightning() { // their files state attentionEvery instead
		return uint32(n)
	}
	if m.fam.AllLayers != 0 && m.fam.AllLayers&part == 0 {
		return uint32(0)
	}
	list, all := make([]int32, m.Layers), true
	for l := range list {
		if m.parts(l)&part != 0 {
			list[l] = int32(n)
		} else {
			all = false
		}
	}
	if all {
		return uint32(n)
	}
	return list
}

// stateSpace returns the sizes of recurrent layers: heads of 16 elements that together are twice as wide as the
// residual, in two groups.
func (m *model) stateSpace() lineage.StateSpace {
	if !m.fam.StateSpace {
		return lineage.StateSpace{}
	}
	if m.fam.ShortConv {
		return lineage.StateSpace{Inner: m.Embd, Taps: 3}
	}
	if m.fam.DeltaAttention() || m.fam.Lightning() { // heads as attention has them
		return lineage.StateSpace{Inner: m.Heads * m.HeadDim, StateSize: m.HeadDim, StateHeads: m.Heads, Groups: m.Heads, Taps: 4}
	}
	if m.fam.Selective() {
		return lineage.StateSpace{Inner: 2 * m.Embd, StateSize: 16, StateHeads: max(1, m.Embd/16), Taps: 4}
	}
	if m.fam.TimeMixed() {
		rank := max(1, m.Embd/32) * 8
		return lineage.StateSpace{Inner: m.Embd, StateSize: 32, Ranks: lineage.Ranks{Decay: rank, Rate: rank, Value: rank, Gate: 2 * rank}}
	}
	if m.fam.Delta { // heads as wide as their keys, two of a group
		const head = 32
		return lineage.StateSpace{Inner: 2 * m.Embd, StateSize: head, StateHeads: 2 * m.Embd / head, Groups: m.Embd / head, Taps: 4}
	}
	const head, groups = 16, 2
	return lineage.StateSpace{Inner: 2 * m.Embd, StateSize: 2 * head, StateHeads: 2 * m.Embd / head, Groups: groups, Taps: 4}
}

// stateKeys returns the keys of recurrent layers.
func (m *model) stateKeys(a func(string) string) []gguf.KV {
	if !m.fam.StateSpace {
		return nil
	}
	if m.fam.ShortConv {
		return []gguf.KV{{Key: a("shortconv.l_cache"), Value: uint32(m.stateSpace().Taps)}}
	}
	if m.fam.DeltaAttention() {
		return m.deltaKeys(a)
	}
	if m.fam.Lightning() {
		return []gguf.KV{{Key: a("full_attention_interval"), Value: uint32(attentionEvery)}, {Key: a("residual_scale"), Value: float32(1.25)}}
	}
	if m.fam.Selective() {
		return m.stateSizes(a)[:4] // without groups
	}
	if m.fam.TimeMixed() {
		s := m.stateSpace()
		rank := uint32(s.Ranks.Decay)
		return []gguf.KV{
			{Key: a("wkv.head_size"), Value: uint32(s.StateSize)},
			{Key: a("attention.decay_lora_rank"), Value: rank},
			{Key: a("attention.iclr_lora_rank"), Value: rank},
			{Key: a("attention.value_residual_mix_lora_rank"), Value: rank},
			{Key: a("attention.gate_lora_rank"), Value: 2 * rank},
		}
	}
	if m.fam.Delta {
		return append(m.stateSizes(a), gguf.KV{Key: a("full_attention_interval"), Value: uint32(attentionEvery)})
	}
	if !m.fam.OnePart || m.fam.OnlyRecurrent() {
		return m.stateSizes(a)
	}
	return append(m.stateSizes(a), gguf.KV{Key: a("attention.layer_norm_epsilon"), Value: float32(1e-5)}) // llama.cpp requires it, for MTP layers
}

// stateSizes returns the keys of the sizes of recurrent layers.
func (m *model) stateSizes(a func(string) string) []gguf.KV {
	s := m.stateSpace()
	return []gguf.KV{
		{Key: a("ssm.conv_kernel"), Value: uint32(s.Taps)},
		{Key: a("ssm.inner_size"), Value: uint32(s.Inner)},
		{Key: a("ssm.state_size"), Value: uint32(s.StateSize)},
		{Key: a("ssm.time_step_rank"), Value: uint32(s.StateHeads)},
		{Key: a("ssm.group_count"), Value: uint32(s.Groups)},
	}
}

// recurrent lists one block's recurrent layer. Heads forget within a few to a few hundred positions, as trained ones
// do.
func (m *model) recurrent(layer int) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	s := m.stateSpace()
	if m.parts(layer)&lineage.Attention == 0 && m.fam.PreNorm() {
		m.norm(name("attn_norm"))
	}
	in := m.input(float64(layer))
	added := growth * attentionShare / float64(m.Layers) * float64(m.Embd)
	weight := float32(math.Sqrt(added/(float64(s.Inner)*float64(m.space.k))) / m.scales.residual)
	if m.fam.Selective() {
		m.selective(layer, in, weight)
		return
	}
	if m.fam.TimeMixed() {
		m.timeMix(layer, in, weight)
		return
	}
	if m.fam.ShortConv {
		m.reader(name("shortconv.in_proj.weight"), 3*s.Inner, in, 1, nil)
		m.taps(name("shortconv.conv.weight"))
		m.writer(name("shortconv.out_proj.weight"), s.Inner, false, func(i int) int { return i }, func(int) float32 { return weight })
		return
	}
	if m.fam.DeltaAttention() || m.fam.Lightning() {
		m.linearAttention(layer, in)
		m.writer(name("attn_output.weight"), s.Inner, false, func(i int) int { return i }, func(int) float32 { return weight })
		return
	}
	if m.fam.Delta {
		m.reader(name("attn_qkv.weight"), s.Channels(), in, 1, nil)
		m.reader(name("attn_gate.weight"), s.Inner, in, 1, nil)
		for _, gates := range []string{"ssm_ba.weight", "ssm_beta.weight", "ssm_alpha.weight"} {
			if m.has(gates) {
				m.reader(name(gates), m.shape(layer, gates)[0], in, 1, nil)
			}
		}
	} else {
		m.reader(name("ssm_in.weight"), s.Inner+s.Channels()+s.StateHeads, in, 1, nil)
	}
	m.taps(name("ssm_conv1d.weight"))
	if !m.fam.Delta {
		m.random(name("ssm_conv1d.bias"), s.Channels(), 0, 0.1)
	}
	m.random(name("ssm_dt.bias"), s.StateHeads, -3, 1)
	decay := func(k key, i int) float32 { return -float32(math.Exp(float64(k.normal(i)))) }
	if k := m.stream(name("ssm_a")); m.fam.Delta {
		m.vector(name("ssm_a"), s.StateHeads, func(i int) float32 { return decay(k, i) })
		m.random(name("ssm_norm.weight"), s.Inner/s.StateHeads, 1, 0.02)
	} else {
		m.stateSpaceVectors(layer, decay)
	}
	m.writer(name("ssm_out.weight"), s.Inner, false, func(i int) int { return i }, func(int) float32 { return weight })
}

// taps lists the weights of a convolution of each channel.
func (m *model) taps(name string) {
	s := m.stateSpace()
	m.plain(func() {
		k := m.stream(name)
		m.matrix(name, s.Channels(), s.Taps, func(c int, row, _ []float32) {
			for i := range row {
				row[i] = 0.5 * k.normal(c*s.Taps+i)
			}
		})
	})
}

// stateSpaceVectors lists the smaller weights of a state space.
func (m *model) stateSpaceVectors(layer int, decay func(k key, i int) float32) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	s := m.stateSpace()
	column := func(stem string, v func(i int) float32) {
		m.plain(func() {
			m.matrix(name(stem), s.StateHeads, 1, func(i int, row, _ []float32) { row[0] = v(i) })
		})
	}
	rate, direct := m.stream(name("ssm_a")), m.stream(name("ssm_d"))
	column("ssm_a", func(i int) float32 { return decay(rate, i) })
	column("ssm_d", func(i int) float32 { return 1 + 0.1*direct.normal(i) })
	if !m.has("ssm_norm.weight") {
		return
	}
	m.plain(func() {
		k, cols := m.stream(name("ssm_norm.weight")), s.Inner/s.Groups
		m.matrix(name("ssm_norm.weight"), s.Groups, cols, func(r int, row, _ []float32) {
			for i := range row {
				row[i] = 1 + 0.02*k.normal(r*cols+i)
			}
		})
	})
}
