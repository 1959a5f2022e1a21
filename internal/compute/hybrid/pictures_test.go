package hybrid_test

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPictures: rows of pictures, which see each other in both directions, are the same wherever a model's embedding
// and attention are, with and without padding, and text after them reads them.
func TestPictures(t *testing.T) {
	on := func(gpu compute.Tier, attention bool, hot int) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu, Bound: hot}, Attention: attention}
	}
	f := synthtest.Sparse(t, synth.Spec{Arch: "gemma3", Type: quant.F32}, layers) // with windows
	load := func(dev compute.Device, places []compute.Place) [][]float32 {
		defer dev.Close()
		m, err := model.Load(t.Context(), f, dev, model.Options{Places: places, Batch: 16, Outputs: 5, Cache: compute.CacheSpec{Pages: sparePages}})
		if err != nil {
			t.Fatal(err)
		}
		return pictured(t, m)
	}
	want := load(host(t), nil)
	for name, plan := range map[string][layers + 1]compute.Place{
		"all on the GPU":   {on(0, true, ff), on(0, true, ff), on(0, true, ff), on(0, true, 0)},
		"attention in RAM": {on(0, false, ff), on(0, true, 160), on(0, false, 0), on(0, true, 0)},
		"head in RAM":      {on(0, true, ff), on(0, true, ff), on(0, true, ff), on(0, false, 0)},
		"two GPUs":         {on(0, true, ff), on(1, true, 160), on(1, false, ff), on(1, true, 0)},
	} {
		got := load(device(t, plan, false), plan[:])
		if d := apart(got, want); !(d <= agree) {
			t.Errorf("%s: a logit differs by %.2g of the largest, more than %g", name, d, agree)
		}
		for i, row := range load(padded(t, plan, false, true), plan[:]) {
			if !slices.Equal(row, got[i]) {
				t.Errorf("%s: row of logits %d is another where there is padding", name, i)
			}
		}
	}
}

// pictured evaluates two prompts with a picture each, with text before and after it, and a token more of both.
func pictured(t *testing.T, m *model.Model) (logits [][]float32) {
	t.Helper()
	rng := testenv.Rand(t)
	at := [2]int32{}
	for _, step := range []struct {
		seq, text, picture, after int32
		decode                    int
	}{{0, 3, 7, 2, 0}, {1, 0, 6, 3, 0}, {0, 1, 0, 0, 1}, {1, 1, 0, 0, 1}, {1, 2, 5, 1, 0}} {
		p := &compute.Params{Pages: [][]int32{{2}, {0}}, Decode: step.decode}
		first := at[step.seq] + step.text // row of the picture
		for i := range step.text + step.picture + step.after {
			pos := at[step.seq]
			at[step.seq]++
			p.Tokens, p.Pos, p.Seq = append(p.Tokens, 7*pos%200), append(p.Pos, pos), append(p.Seq, step.seq)
			if step.picture == 0 {
				continue
			}
			p.Given, p.Bounds = append(p.Given, nil), append(p.Bounds, compute.Bounds{To: pos + 1})
			if pos >= first && pos < first+step.picture {
				p.Given[i], p.Bounds[i].To = make([]float32, 256), first+step.picture
				for j := range p.Given[i] {
					p.Given[i][j] = float32(rng.NormFloat64())
				}
			}
		}
		p.Out = []int32{int32(len(p.Tokens) - 1)}
		if err := m.Forward(p); err != nil {
			t.Fatal(err)
		}
		row, err := m.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, slices.Clone(row))
	}
	return logits
}
