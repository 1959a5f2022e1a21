package model

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// leastGain is the least share of multiplications that a step must save to expand keys and values: rounding differs
// from steps without.
const leastGain = 0.2

// expands reports whether a step makes keys and values from the latent vectors in the cache. It does if that needs
// fewer multiplications, and no row uses the arithmetic of single tokens.
func (m *Model) expands(p *compute.Params) bool {
	if p.Decode > 0 || len(p.Tokens) <= compute.FewTokens || !m.Latent() { // a token asks no layer
		return false
	}
	made, pairs := 0, 0 // positions for which keys and values are made, and pairs of a query and a position that it sees
	for i, pos := range p.Pos {
		pairs += int(pos) + 1
		if i == len(p.Pos)-1 || p.Seq[i+1] != p.Seq[i] {
			made += int(pos) + 1
		}
	}
	b := &m.Blocks[slices.IndexFunc(m.Blocks, func(b Block) bool { return b.Latent > 0 })]
	once := (b.Key - b.Rotated + b.Value) * b.Latent // multiplications that make a position's keys and values; a query's, before and after attention to the latent vectors, are as many
	with, without := made*once+pairs*(b.Key+b.Value), len(p.Tokens)*once+pairs*(2*b.Latent+b.Rotated)
	return float64(with) < (1-leastGain)*float64(without)
}

// latentBytes returns the bytes in memory of attn_kv_b, the tensor of type t with the keys' and values' matrices of all
// heads. They differ from the file's, because heads binds the keys' matrices in another form.
func (b *Block) latentBytes(t quant.Type) int64 {
	own := b.Key - b.Rotated
	return int64(b.Heads) * (int64(b.Latent)*int64(nn.Transposed(t).RowBytes(own)) + int64(b.Value)*int64(t.RowBytes(b.Latent)))
}

// ExpandedBytes returns the bytes that a tensor of c's file takes in memory a second time, in its original form. Keys'
// matrices of latent attention do if their layer's attention is in RAM, for prompts (Model.expanding). Other tensors
// take 0. places say which layers are on GPUs; nil: none are.
func (c *Config) ExpandedBytes(t *gguf.Tensor, places []compute.Place) int64 {
	b, l := c.blockOf(t.Name)
	if b == nil || b.Latent == 0 || c.attendsOnGPU(l, places) {
		return 0
	}
	rows := int64(b.Heads) * int64(b.Key-b.Rotated)
	switch {
	case strings.HasSuffix(t.Name, ".attn_kv_b.weight"):
		return rows * int64(t.Type.RowBytes(b.Latent))
	case strings.HasSuffix(t.Name, ".attn_k_b.weight"):
		return rows * int64(nn.Transposed(t.Type).RowBytes(b.Latent))
	}
	return 0
}

// Loaded returns the type and bytes that a tensor of f, c's file, has when it is loaded. The type is that of most of
// its elements. copied: the bytes are not the file's own, even if the model is computed on the mapped file. That is so
// because a factor is multiplied into them, or because heads gives them another form.
func (c *Config) Loaded(f *gguf.File, t *gguf.Tensor) (typ quant.Type, bytes int64, copied bool) {
	if b, _ := c.blockOf(t.Name); b != nil && b.Latent > 0 && strings.HasSuffix(t.Name, ".attn_kv_b.weight") {
		return nn.Transposed(t.Type), b.latentBytes(t.Type), true
	}
	base, weight := strings.CutSuffix(t.Name, ".weight")
	if t.Type != quant.NVFP4 || !weight || f.Tensor(base+nn.FactorSuffix) == nil {
		return t.Type, t.Bytes(), false
	}
	return quant.NVFP4Scaled, int64(quant.NVFP4Scaled.RowBytes(t.Elems())), true
}
