package hybrid_test

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestHot: a drafting step gives the results of a model with cold neurons that add nothing, and later steps those of
// the whole model.
func TestHot(t *testing.T) {
	const hot = 160
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Exact},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict},
	} {
		f := synthtest.Sparse(t, c.spec, layers)
		var plan [layers + 1]compute.Place
		for l := range layers {
			plan[l] = compute.Place{Split: compute.Split{Bound: hot}, Attention: true, Predictor: l > 0}
		}
		step := func(f *gguf.File, dev compute.Device, o model.Options, draft ...bool) (out [][]float32) {
			t.Helper()
			defer dev.Close()
			o.Sparse, o.Batch, o.Outputs, o.Cache = c.mode, 4, 2, compute.CacheSpec{Pages: 2}
			m, err := model.Load(t.Context(), f, dev, o)
			if err != nil {
				t.Fatal(err)
			}
			if len(draft) > 1 && !m.Drafts() {
				t.Fatal("the model cannot guess")
			}
			for _, d := range draft {
				p := compute.Params{Tokens: []int32{40, 261}, Pos: []int32{0, 0}, Seq: []int32{0, 1}, Pages: [][]int32{{0}, {1}}, Out: []int32{0, 1}, Decode: 2, Draft: d}
				if err := m.Forward(&p); err != nil {
					t.Fatal(err)
				}
				for i := range p.Out {
					row, err := m.Logits(i)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, row)
					out = cloned(out)
				}
			}
			return out
		}
		got := step(f, device(t, plan, true), model.Options{Places: plan[:], Drafts: true}, true, false, true)
		whole := step(f, host(t), model.Options{}, false)
		for _, w := range f.Tensors {
			if strings.HasSuffix(w.Name, "ffn_down_t.weight") {
				clear(w.Data[hot*w.Type.RowBytes(w.Shape[0]):])
			}
		}
		want := step(f, host(t), model.Options{}, false)
		if apart(want, whole) < 100*agree {
			t.Fatal("cold neurons make no difference")
		}
		for _, at := range []int{0, 4} { // recorded and replayed
			if d := apart(got[at:at+2], want); !(d <= agree) {
				t.Errorf("%s %s: a logit of a guess differs by %.2g of the largest, more than %g", c.spec.Arch, c.mode, d, agree)
			}
		}
		if d := apart(got[2:4], whole); !(d <= agree) {
			t.Errorf("%s %s: behind a guess a logit differs by %.2g of the largest, more than %g", c.spec.Arch, c.mode, d, agree)
		}
	}
}
