package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// maxExperts bounds the experts of a layer.
const maxExperts = 1 << 12

// expertKeys returns the keys that describe a model's experts.
func (c *config) expertKeys(f lineage.Family) (keys []gguf.KV, err error) {
	m := &c.Mixture
	switch {
	case f.Experts == nil:
		return nil, nil
	case m.Count == 0 && f.Experts.Optional:
		return nil, nil
	case m.Count < 1 || m.Count > maxExperts:
		return nil, c.Errorf("num_experts", "%d is not a number of experts from 1 to %d", m.Count, maxExperts)
	case m.Used < 1 || m.Used > m.Count:
		return nil, c.Errorf("num_experts_per_tok", "%d of %d experts cannot be used", m.Used, m.Count)
	case m.Width < 1 || m.Width > maxWidth:
		return nil, c.Errorf("moe_intermediate_size", "%d neurons of an expert are outside 1…%d", m.Width, maxWidth)
	case m.Shared < 0 || m.Shared > maxWidth || m.Shared == 0 && f.Experts.Shared:
		return nil, c.Errorf("shared_expert_intermediate_size", "%d neurons are outside 1…%d", m.Shared, maxWidth)
	}
	add := func(name string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + name, Value: v}) }
	add("expert_count", uint32(m.Count))
	add("expert_used_count", uint32(m.Used))
	add("expert_feed_forward_length", uint32(m.Width))
	if m.Shared > 0 {
		add("expert_shared_feed_forward_length", uint32(m.Shared))
	}
	if f.Experts.Counted {
		add("expert_shared_count", uint32(max(c.SharedExperts, m.Shared/m.Width)))
	}
	how := *f.Experts
	if m.Score != nil {
		how.Score = *m.Score
	}
	if g := how.Gating(); g > 1 || how.Score != f.Experts.Score { // of the first, llama.cpp's files say nothing in families that have it
		add("expert_gating_func", g)
	}
	if m.First > 0 {
		add("leading_dense_block_count", uint32(m.First))
	}
	switch {
	case m.Every > 0 && f.Headless:
		add("moe_every_n_layers", uint32(m.Every))
	case m.Every > 0:
		add("interleave_moe_layer_step", uint32(m.Every))
	}
	if m.Scale != 0 && m.Scale != 1 {
		if !(m.Scale > 0 && m.Scale <= maxScale) {
			return nil, c.Errorf("routed_scaling_factor", "%g is not a factor from 0 to %g", m.Scale, maxScale)
		}
		add("expert_weights_scale", float32(m.Scale))
	}
	if m.Groups > 0 {
		if m.Groups > m.Count || m.GroupsUsed < 1 || m.GroupsUsed > m.Groups {
			return nil, c.Errorf("topk_group", "%d of %d groups of %d experts cannot be used", m.GroupsUsed, m.Groups, m.Count)
		}
		add("expert_group_count", uint32(m.Groups))
		add("expert_group_used_count", uint32(m.GroupsUsed))
	}
	if m.Latent > 0 {
		if m.Latent > maxWidth {
			return nil, c.Errorf("moe_latent_size", "%d is outside 1…%d", m.Latent, maxWidth)
		}
		key := "moe_latent_size"
		if f.DeltaAttention() {
			key = "expert_latent_length"
		}
		add(key, uint32(m.Latent))
	}
	if n := m.Normalised; n != nil && *n != f.Experts.Normalised {
		add("expert_weights_norm", *n)
	}
	return keys, nil
}

// outputs plans output tensor name of shape dims, [n, rows, cols] or for biases [n, rows], from the outputs that change
// names of the matrices [n, cols, outputs], or biases [n, outputs], in from. Matrices in MXFP4 are [n, outputs,
// cols/32, 16] with their exponents beside them.
func (p *plan) outputs(name, from string, dims []int, change lineage.Change) {
	if p.pairs != nil { // adapters of experts are not converted
		return
	}
	step, first := 2, 0
	switch change {
	case lineage.Outputs:
		step = 1
	case lineage.OddOutputs:
		first = 1
	}
	rows := dims[1]
	every := func(r int) int { return r/rows*rows*step + r%rows*step + first }
	switch stem, packed := strings.CutSuffix(from, "_blocks"); {
	case packed:
		p.blocks(name, stem, dims, step).row = every
	case len(dims) == 2:
		t := p.from(name, from, dims, []int{dims[0], rows * step})
		t.plain, t.single, t.row = true, true, every
	default:
		t := p.from(name, from, dims, []int{dims[0], dims[2], rows * step})
		t.column, t.apart, t.step, t.first = true, dims[2], step, first
	}
}

// halfOfOutputs plans output tensor name of shape dims, [n, rows, cols], from one half of the columns of the matrices
// [n, cols, 2·rows] in from.
func (p *plan) halfOfOutputs(name, from string, dims []int, change lineage.Change) {
	if p.pairs != nil { // adapters of experts are not converted
		return
	}
	t := p.from(name, from, dims, []int{dims[0], dims[2], 2 * dims[1]})
	t.column, t.apart, t.wide = true, dims[2], 2*dims[1]
	if change == lineage.SecondOutputs {
		t.first = dims[1]
	}
}

// mxfp4Block is the number of elements of a block, and mxfp4Codes that of the bytes of their codes.
const (
	mxfp4Block = 32
	mxfp4Codes = mxfp4Block / 2
)

// blocks plans output tensor name of shape dims from codes and exponents of MXFP4, of step times as many rows.
func (p *plan) blocks(name, stem string, dims []int, step int) *tensor {
	t := &tensor{name: name}
	if p.err != nil {
		return t
	}
	stored := []int{dims[0], dims[1] * step, dims[2] / mxfp4Block}
	for _, side := range []struct {
		name  string
		shape []int
		to    **checkpoint.Tensor
	}{{stem + "_blocks", append(slices.Clone(stored), mxfp4Codes), &t.from}, {stem + "_scales", stored, &t.scales}} {
		s := p.source.Tensors[side.name]
		switch {
		case s == nil:
			p.err = fmt.Errorf("%s: tensor %q is missing: the folder is incomplete, or not of the architecture that config.json names; download it again", p.source.Path, side.name)
			return t
		case !slices.Equal(s.Shape, side.shape) || s.DType != "U8" || dims[2]%mxfp4Block != 0:
			p.err = fmt.Errorf("%s: offset %d: tensor %q is %s of shape %v, and MXFP4 of what config.json says makes it U8 of %v", s.Path(), s.Offset, side.name, s.DType, s.Shape, side.shape)
			return t
		}
		p.used[side.name], *side.to = true, s
	}
	t.shape = slices.Clone(dims)
	slices.Reverse(t.shape)
	p.tensors = append(p.tensors, t)
	return t
}

// noExponent is an exponent that stands for no number.
const noExponent = 0xff

// repack fills l.out with rows [from, to) of t as GGUF has MXFP4: a block's exponent, then its codes, of which a byte
// holds element i and, above it, element i+16. In the source a byte holds element 2i and, above it, element 2i+1.
func (l *lane) repack(t *tensor, rowLen, from, to int) error {
	blocks := rowLen / mxfp4Block
	l.raw = resize(l.raw, blocks*(mxfp4Codes+1))
	codes, exponents := l.raw[:blocks*mxfp4Codes], l.raw[blocks*mxfp4Codes:]
	out := l.out
	for r := from; r < to; r++ {
		at := int64(t.row(r))
		if err := t.from.ReadAt(codes, at*int64(len(codes))); err != nil {
			return err
		}
		if err := t.scales.ReadAt(exponents, at*int64(blocks)); err != nil {
			return err
		}
		for b, e := range exponents {
			if e == noExponent {
				return fmt.Errorf("%s: offset %d: tensor %q holds NaN; the model is damaged", t.scales.Path(), t.scales.Offset, t.scales.Name)
			}
			in := codes[b*mxfp4Codes:][:mxfp4Codes]
			out[0] = e
			for i := range mxfp4Codes {
				shift := i % 2 * 4
				low, high := in[i/2]>>shift&15, in[i/2+mxfp4Codes/2]>>shift&15
				out[1+i] = low | high<<4
			}
			out = out[1+mxfp4Codes:]
		}
	}
	return nil
}
