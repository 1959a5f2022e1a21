package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Shapes of attention_token.comp.
const (
	tokenLocal  = 128
	tokenTile   = 128 // positions that are attended to at a time
	tokenChunks = 64  // parts of the positions that a token sees, at most
)

// byToken reports whether attention_token.comp computes single tokens: if values are stored apart from keys and in
// whole vectors, and no query heads share them. On an H200 a 7B model made 522 tokens a second with it and 490 without,
// at the beginning of a context. With four query heads for each KV head it seemed slower, while the card's clocks were
// still rising.
func (f *attending) byToken() bool {
	l := &f.c.Layers[f.layer]
	if l.Within || f.group != 1 || l.Value%8 != 0 || l.Value > 8*tokenLocal {
		return false
	}
	return tokenBytes(*l) <= int(f.r.d.gpu.Limits.MaxComputeSharedMemorySize)
}

// tokenBytes returns the shared memory of a workgroup of attention_token.comp.
func tokenBytes(l compute.KVShape) int {
	const packing = 2 << 10 // packing.glsl
	slices := tokenLocal / (tokenTile / 4)
	room := max(slices*tokenTile, 8*tokenLocal, tokenChunks)
	return 4*(room+l.Key+tokenTile+tokenTile/2+l.Value) + packing + attentionRest
}

// alone computes the first n tokens by attention_token.comp, up to fewRows at a time: that fills any GPU, and the parts
// of more would take memory that weights can use.
func (f *attending) alone(n int) {
	if n == 0 {
		return
	}
	r, l := f.r, &f.c.Layers[f.layer]
	chunks := min(ceil(f.c.Pages*compute.PagePositions, tokenTile), tokenChunks)
	part := 4 * int64(f.heads) * int64(chunks) * int64(l.Value+4)
	most := max(1, min(n, fewRows, int(min(r.d.maxBinding, splitBytes)/part))) // tokens at a time
	parts := r.scratch("attention", part*int64(most))
	done := r.scratch("finished attention", 4*int64(f.heads)*int64(most))
	form, pack := floats(f.out), false // stands in
	if l.Value%quant.QK == 0 && n == f.out.Rows {
		form, pack = r.packing(f.out)
	}
	keys, values := cacheLayer(f.c, f.layer)
	for first := 0; first < n; first += most {
		r.dispatch(call{
			shader: "attention_token", local: tokenLocal,
			spec: []uint32{
				uint32(l.Key), uint32(l.Value), uint32(f.group), tokenTile, uint32(l.KeyType), uint32(l.ValueType),
				truth(f.how.Sinks != nil), truth(f.how.Slopes != nil), truth(f.how.Later), truth(pack), tokenChunks,
			},
			bind: []binding{
				read(floats(f.q)), read(keys), read(values), write(floats(f.out)), update(parts), read(r.params()), update(done), write(form),
				read(elementsOr(f.how.Sinks, floats(f.q))), read(elementsOr(f.how.Slopes, floats(f.q))),
			},
			push: []uint32{
				uint32(first), uint32(f.heads), uint32(l.Heads), uint32(chunks), math.Float32bits(f.how.Scale), uint32(r.seg.params.rows), uint32(r.seg.params.out),
				window(f.how), math.Float32bits(f.how.SoftCap), truth(f.c.IsWindowed(f.layer)), packedScales(f.out.Rows * f.out.Cols),
			},
			groups: [3]int{f.heads, min(n-first, most), chunks},
		})
	}
	r.packed(f.out, form, pack)
}
