package model

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// leastGain is the share of multiplications that must be saved at least for a step to have keys and values made:
// rounding is other than without them.
const leastGain = 0.2

// expands reports whether a step has keys and values made of what is cached: where that is fewer multiplications, and
// no row goes by the arithmetic of single tokens.
func (m *Model) expands(p *compute.Params) bool {
	if p.Decode > 0 || len(p.Tokens) <= compute.FewTokens || !m.Latent() { // a token asks no layer
		return false
	}
	made, pairs := 0, 0 // positions whose keys and values are made, and pairs of a query and a position that it sees
	for i, pos := range p.Pos {
		pairs += int(pos) + 1
		if i == len(p.Pos)-1 || p.Seq[i+1] != p.Seq[i] {
			made += int(pos) + 1
		}
	}
	b := &m.Blocks[slices.IndexFunc(m.Blocks, func(b Block) bool { return b.Latent > 0 })]
	once := (b.Key - b.Rotated + b.Value) * b.Latent // of a position to make them, and of a query to meet the cache and to leave it
	with, without := made*once+pairs*(b.Key+b.Value), len(p.Tokens)*once+pairs*(2*b.Latent+b.Rotated)
	return float64(with) < (1-leastGain)*float64(without)
}

// latentBytes returns the bytes that attn_kv_b, the tensor of type t with the keys' and values' matrices of all heads,
// takes in memory. They are not the file's, because heads binds the keys' matrices in another form.
func (b *Block) latentBytes(t quant.Type) int64 {
	own := b.Key - b.Rotated
	return int64(b.Heads) * (int64(b.Latent)*int64(nn.Transposed(t).RowBytes(own)) + int64(b.Value)*int64(t.RowBytes(b.Latent)))
}

// ExpandedBytes returns what a tensor of c's file takes in memory once more where its layer's attention lies in RAM,
// which places say; nil: all do. The keys' matrices of latent attention are there as they are, too, for prompts
// (Model.expanding). It is 0 for other tensors.
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

// Loaded returns the type, which is that of most of it, and the bytes that a tensor of f, c's file, has when it is
// loaded. copied: they are not the file's own, even where that is computed on as it is mapped, for a factor is put into
// them, or heads gives them another form.
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
