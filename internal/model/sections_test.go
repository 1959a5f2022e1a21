package model_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestSectionsApart: files of GLM 4 that read pictures have sections of positions. For these, the halves of rotated
// pairs are apart, because llama.cpp's conversion reorders rows of queries and keys. A text's logits equal those of the
// same model without sections, which has the pairs' elements next to each other.
func TestSectionsApart(t *testing.T) {
	const embd, dim, turned = 64, 16, 8
	plain := synthtest.File(t, synth.Spec{Arch: "glm4", Type: quant.F32, Layers: 2, Embd: embd, FF: 96, Heads: 4, KVHeads: 2, Rope: synth.Rope{RopeDims: turned}, Seed: 7})
	var tensors []gguf.Source
	for _, w := range plain.Tensors {
		if !strings.Contains(w.Name, ".attn_q.") && !strings.Contains(w.Name, ".attn_k.") {
			tensors = append(tensors, synthtest.Copied(w, w.Name))
			continue
		}
		in := make([]float32, w.Elems())
		if _, err := binary.Decode(w.Data, binary.LittleEndian, in); err != nil {
			t.Fatal(err)
		}
		out, each := slices.Clone(in), embd
		if strings.HasSuffix(w.Name, ".bias") {
			each = 1
		}
		for row := range len(in) / each {
			if at := row % dim; at < turned { // pair at/2 of the head
				to := row - at + at/2 + at%2*turned/2
				copy(out[to*each:][:each], in[row*each:][:each])
			}
		}
		tensors = append(tensors, synthtest.Floats(w.Name, out, w.Shape...))
	}
	apart := synthtest.Made(t, append(slices.Clone(plain.Keys), gguf.KV{Key: "glm4.rope.dimension_sections", Value: []int32{2, 1, 1, 0}}), tensors)
	logits := func(f *gguf.File) []float32 {
		m, err := model.Load(t.Context(), f, ref.New(), model.Options{Batch: 5, Outputs: 1, Cache: compute.CacheSpec{Pages: 1}})
		if err != nil {
			t.Fatal(err)
		}
		p := compute.Params{Tokens: []int32{1, 300, 17, 44, 259}, Pos: []int32{0, 1, 2, 3, 4}, Seq: make([]int32, 5), Pages: [][]int32{{0}}, Out: []int32{4}}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		v, err := m.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(v)
	}
	want, got := logits(plain), logits(apart)
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-4 { // products of a head are summed in another order
			t.Fatalf("logit %d is %g, not %g", i, got[i], want[i])
		}
	}
}
