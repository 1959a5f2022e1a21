package hybrid_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestPadding: steps with padding on the GPU give the bytes of steps without it, whichever operations the CPU does.
// This holds for prompts, single tokens, and both in a step, with changing numbers in the same recordings. The CPU has
// no padding, so its counts are the same.
func TestPadding(t *testing.T) {
	place := func(gpu compute.Tier, attention, predictor bool, hot int) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu, Bound: hot}, Attention: attention, Predictor: predictor}
	}
	plans := map[string][layers + 1]compute.Place{
		"hot":              {place(0, true, true, 160), place(0, true, true, 33), place(0, true, true, 1000), place(0, true, false, 0)},
		"predictor in RAM": {place(0, true, false, 160), place(0, true, false, 0), place(0, true, false, ff), place(0, false, false, 0)},
		"attention in RAM": {place(0, false, false, 160), place(0, false, true, 96), place(0, false, false, 0), place(0, true, false, 0)},
		"to and fro":       {place(1, true, true, 160), place(0, true, false, ff), place(1, false, true, 96), place(0, true, false, 0)},
	}
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		{synth.Spec{Arch: "llama", Type: quant.F32}, model.Off},
		{synth.Spec{Arch: "qwen3", Type: quant.F32}, model.Off}, // norms of heads
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
	} {
		f := synthtest.Sparse(t, c.spec, layers)
		for name, plan := range plans {
			for _, streamed := range []bool{false, true} {
				if streamed && name != "hot" {
					continue
				}
				t.Run(fmt.Sprintf("%s %s/%s/streamed %t", c.spec.Arch, c.mode, name, streamed), func(t *testing.T) {
					var texts [2][][]float32
					for i := range texts {
						dev := padded(t, plan, streamed, i > 0)
						defer dev.Close()
						m, err := model.Load(t.Context(), f, dev, model.Options{Neurons: model.Neurons{Sparse: c.mode}, Places: plan[:], Batch: 16, Outputs: 5, Cache: compute.CacheSpec{Pages: sparePages}})
						if err != nil {
							t.Fatal(err)
						}
						texts[i] = mixed(t, m)
					}
					for i := range texts[0] {
						if !slices.Equal(texts[0][i], texts[1][i]) {
							t.Errorf("row of logits %d is another where there is padding", i)
						}
					}
				})
			}
		}
	}
}

// mixed evaluates steps with single tokens of two sequences, and parts of prompts of a third, and returns all logits.
// What has the same shape with padding has other numbers of rows each time.
func mixed(t *testing.T, m *model.Model) (logits [][]float32) {
	t.Helper()
	at := [3]int32{}
	for round, n := range [][3]int{{0, 0, 9}, {0, 0, 7}, {1, 1, 0}, {1, 0, 5}, {1, 1, 9}, {1, 1, 0}, {0, 1, 0}, {1, 1, 3}, {1, 0, 7}, {0, 0, 2}} {
		p := &compute.Params{Pages: [][]int32{{2}, {0}, {1}}}
		for seq, rows := range n {
			for range rows {
				p.Tokens = append(p.Tokens, (int32(round)*37+at[seq]*11+int32(seq)*5)%200)
				p.Pos, p.Seq = append(p.Pos, at[seq]), append(p.Seq, int32(seq))
				at[seq]++
			}
			if rows > 0 {
				p.Out = append(p.Out, int32(len(p.Tokens)-1))
			}
			if seq < 2 {
				p.Decode += rows
			}
		}
		if err := m.Forward(p); err != nil {
			t.Fatal(err)
		}
		for i := range p.Out {
			row, err := m.Logits(i)
			if err != nil {
				t.Fatal(err)
			}
			logits = append(logits, slices.Clone(row))
		}
	}
	return logits
}

// TestPaddingSendsNothing: padding does not count for the number of rows, or of rows of logits, from which weights are
// sent.
func TestPaddingSendsNothing(t *testing.T) {
	d := hybrid.New(newTapes(host(t), true), host(t), nil)
	defer d.Close()
	d.Stream(hybrid.Streaming{Tokens: 8, Experts: 18})
	most := compute.Segment{Rows: 32, Out: 32}
	for _, c := range []struct{ rows, out, wantRows, wantOut int }{
		{7, 7, 7, 7},
		{8, 7, 12, 7},
		{16, 8, 17, 9},
		{17, 17, 17, 17},
		{18, 18, 20, 19},
	} {
		s := d.Shape(compute.Segment{Rows: c.rows, Out: c.out}, most)
		if s.Rows != c.wantRows || s.Out != c.wantOut {
			t.Errorf("%d rows, of which %d have logits, have room for %d and %d, want %d and %d", c.rows, c.out, s.Rows, s.Out, c.wantRows, c.wantOut)
		}
	}
}
