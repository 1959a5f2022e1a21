package prepare

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// TestCostOf7B: the bytes of a 7B-shaped layer in Q4_0, as in the project's aims: 76 MB dense; a third of them are gate
// rows.
func TestCostOf7B(t *testing.T) {
	const embd, ff = 4096, 11008
	row := int64(quant.Q4_0.RowBytes(embd))
	k := cost{ff: ff, embd: embd, deciding: row, following: 2 * row, predictor: quant.Q4_0}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.005*want {
			t.Errorf("%s: %.1f MB, want %.1f", what, got/1e6, want/1e6)
		}
	}
	near("dense", k.dense(), 3*embd*ff*0.5625)
	near("exact at 10 %", k.exact(0.1), 1.2*embd*ff*0.5625)
	// Rank 512, nothing always on, twice as many predicted as are active.
	near("predict", k.predict(512, 0, 0.2, 0.1), (512*(embd+ff)+0.2*embd*ff+0.2*embd*ff)*0.5625)
	near("predict with 1008 always on", k.predict(512, 1008, 0.2, 0.1), (512*(embd+10000)+(1008+2000)*embd+0.2*embd*ff)*0.5625)
	if share := k.weights(512, ff) / k.dense(); share > 0.12 {
		t.Errorf("a predictor of rank 512 is %.3f of its layer", share)
	}
	if p := k.alwaysFrom(); math.Abs(p-0.875) > 1e-9 {
		t.Errorf("always on from %g, want 7/8", p)
	}
}

// Gated families decide by gate rows, the others by up rows; down counts with what follows.
func TestLayerCost(t *testing.T) {
	for arch, rows := range map[string]struct{ deciding, following int64 }{"llama": {1, 2}, "opt": {1, 1}, "falcon": {1, 1}, "arcee": {1, 1}, "nemotron": {1, 1}, "phi3": {1, 2}} {
		s := synth.Spec{Arch: arch, Layers: 1, Embd: 64, FF: 128, Heads: 2, Type: quant.F16, Activation: "relu"}
		f := openSmall(t, s)
		c, err := model.ReadConfig(f, "")
		if err != nil {
			t.Fatal(err)
		}
		k, err := layerCost(f, c, 0, quant.F16)
		if err != nil || k.deciding != 128*rows.deciding || k.following != 128*rows.following {
			t.Errorf("%s: %+v, %v", arch, k, err)
		}
	}
}
