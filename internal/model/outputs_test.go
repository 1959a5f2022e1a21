package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestOutputRows: in every family, steps with a last layer that computes only the rows that need logits give the bytes
// of steps that compute all rows.
func TestOutputRows(t *testing.T) {
	compare := func(name string, f *gguf.File, mode model.SparseMode) {
		t.Run(fmt.Sprintf("%s/%s", name, mode), func(t *testing.T) {
			t.Parallel()
			dev, err := cpu.New(cpu.Options{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			outputRows(t, f, dev, model.Options{Neurons: model.Neurons{Sparse: mode}})
		})
	}
	types := testenv.Some(t, 1, []quant.Type{quant.F16, quant.Q4_0})
	modes := testenv.Turns(t, model.Exact, model.Off) // TestReplay has the others
	for i, family := range testenv.Few(t, 7, lineage.All()) {
		if family.Headless {
			continue
		}
		for _, typ := range types {
			f := synthtest.Sparse(t, synth.Spec{Arch: family.Name, Type: typ, FF: 256}, 2)
			for _, mode := range modes(i) {
				compare(fmt.Sprintf("%s %s", family.Name, typ), f, mode)
			}
		}
	}
	for _, name := range []string{"llama", "bamboo", "falcon", "opt"} {
		compare(name+" with predictors", synthtest.Sparse(t, synth.Spec{Arch: name, Type: quant.F16, Magic: "PWRI"}, 2), model.Predict)
	}
}

// outputRows compares the bytes of a model's steps by Forward with those by ForwardHidden, which computes every row of
// every layer.
func outputRows(t *testing.T, f *gguf.File, dev compute.Device, o model.Options) {
	t.Helper()
	o.Batch, o.Outputs, o.Cache = 96, 4, compute.CacheSpec{Pages: 8, States: 2}
	m, err := model.Load(t.Context(), f, dev, o)
	if err != nil {
		t.Fatal(err)
	}
	want := companySteps(t, m, m.ForwardHidden)
	if at := differ(companySteps(t, m, m.Forward), want); at >= 0 {
		t.Errorf("row of logits %d differs", at)
	}
}

// companySteps runs steps of two sequences with forward. One generates while the other's prompt is read. There are
// steps with logits of both, of one and of none. It returns all logits.
func companySteps(t *testing.T, m *model.Model, forward func(*compute.Params) error) (logits [][]float32) {
	t.Helper()
	var at [2]int32 // positions
	pages := [][]int32{{0, 1, 2}, {3, 4, 5}}
	step := func(decode int, rows [2]int, out ...int32) {
		p := compute.Params{Decode: decode, Pages: pages, Near: pages, States: []int32{0, 1}, Out: out}
		for seq, n := range rows {
			for range n {
				p.Tokens = append(p.Tokens, sparseTokens[int(at[seq])%len(sparseTokens)])
				p.Pos, p.Seq = append(p.Pos, at[seq]), append(p.Seq, int32(seq))
				at[seq]++
			}
		}
		if err := forward(&p); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			row, err := m.Logits(i)
			if err != nil {
				t.Fatal(err)
			}
			logits = append(logits, slices.Clone(row))
		}
	}
	step(5, [2]int{5, 0}, 4)
	step(1, [2]int{1, 70}, 0)
	step(0, [2]int{0, 3})
	step(1, [2]int{1, 40}, 0, 40)
	step(2, [2]int{1, 1}, 0, 1)
	step(0, [2]int{0, 1}, 0)
	return logits
}

// TestOutputsInOrder: rows of logits out of ascending order are refused, because devices tell rows of single tokens
// from rows of prompts by the order.
func TestOutputsInOrder(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	f := synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.F16}, 1)
	m, err := model.Load(t.Context(), f, dev, model.Options{Batch: 2, Outputs: 2, Cache: compute.CacheSpec{Pages: 1}})
	if err != nil {
		t.Fatal(err)
	}
	p := compute.Params{Tokens: []int32{1, 2}, Pos: []int32{0, 1}, Seq: []int32{0, 0}, Pages: [][]int32{{0}}, Out: []int32{1, 0}}
	if err := m.Forward(&p); err == nil || !strings.Contains(err.Error(), "ascending") {
		t.Errorf("rows of logits [1 0]: error %v", err)
	}
}
