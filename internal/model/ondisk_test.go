package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// loadOnDisk loads f with cache bytes of RAM for units on disk; 0: no units stay there.
func loadOnDisk(t *testing.T, f *gguf.File, o model.Options, cache int64) (*model.Model, *cpu.Device, error) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2, UnitCache: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	o.Batch, o.Outputs, o.Cache, o.OnDisk = 32, 32, compute.CacheSpec{Pages: 8}, cache > 0
	m, err := model.Load(t.Context(), f, dev, o)
	return m, dev, err
}

// TestNeuronsOnDisk: a dense model with neurons on disk gives the same bytes as in RAM, for prompts and token by token,
// and reads fewer than all neurons for a token.
func TestNeuronsOnDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var order [][]int32
	for range 2 {
		var list []int32
		for _, n := range random.Perm(1024) {
			list = append(list, int32(n))
		}
		order = append(order, list)
	}
	for _, c := range []struct {
		arch    string
		typ     quant.Type
		options model.Options
		parts   int64 // that are on disk
	}{
		{"llama", quant.Q4_0, model.Options{Neurons: model.Neurons{Sparse: model.Predict}}, 3},
		{"llama", quant.F16, model.Options{Neurons: model.Neurons{Sparse: model.Predict}, Order: order}, 3},
		{"llama", quant.F16, model.Options{Neurons: model.Neurons{Sparse: model.Predict}, Recall: true}, 3},
		{"llama", quant.Q4_0, model.Options{Neurons: model.Neurons{Sparse: model.Exact}}, 2},
		{"llama", quant.Q4_0, model.Options{Neurons: model.Neurons{Sparse: model.Exact}, Drafts: true}, 2},
		{"opt", quant.F16, model.Options{Neurons: model.Neurons{Sparse: model.Predict}}, 2},
		{"opt", quant.F16, model.Options{Neurons: model.Neurons{Sparse: model.Exact}}, 1},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s/ordered=%t,drafts=%t,recall=%t", c.arch, c.typ, c.options.Sparse, c.options.Order != nil, c.options.Drafts, c.options.Recall), func(t *testing.T) {
			f := synthtest.SparseOnDisk(t, synth.Spec{Arch: c.arch, Type: c.typ, Magic: "PWRI"}, 2)
			run := func(cache int64, b *bundle.File) ([][]float32, []model.NeuronUse, compute.UnitUse) {
				o := c.options
				o.Bundle = b
				m, dev, err := loadOnDisk(t, f, o, cache)
				if err != nil {
					t.Fatal(err)
				}
				out := evaluate(t, m, sparseTokens, 11, 1, 1, 3, 1, 2, 1)
				return out, m.Neurons(), dev.Usage().Units
			}
			bundled, err := bundle.Make(t.Context(), f, f.Path+bundle.Suffix, bundle.Making{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { bundled.Close() })
			want, wantUse, _ := run(0, nil)
			unit := c.parts * int64(c.typ.RowBytes(256))
			reads := int64(0)
			for _, from := range []*bundle.File{nil, bundled} {
				got, use, units := run((1024+300)*unit*5/4, from)
				for i := range want {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("bundled=%t: token %d: other bytes than in RAM", from != nil, i)
					}
				}
				for l := range use {
					if use[l].Predicted != wantUse[l].Predicted || use[l].Active != wantUse[l].Active || use[l].Tokens != wantUse[l].Tokens {
						t.Errorf("layer %d counted %+v, in RAM %+v", l, use[l], wantUse[l])
					}
				}
				if units.Units != 2*1024 || units.Slots >= units.Units || units.Misses == 0 || units.Hits == 0 {
					t.Errorf("%+v, want 2048 neurons on disk, some of which were used", units)
				}
				if from != nil && float64(c.parts*units.Reads) > 1.1*float64(reads) {
					t.Errorf("%d reads, and %d of neurons that are read at once", reads, units.Reads)
				}
				reads = units.Reads
			}
		})
	}
}

// TestStayOnDisk: a model that cannot stay on disk is refused before anything is loaded.
func TestStayOnDisk(t *testing.T) {
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
		want string
	}{
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Off, "every token"},
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Exact, "powerinfer prepare"},
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, "powerinfer prepare"},
	} {
		_, _, err := loadOnDisk(t, synthtest.SparseOnDisk(t, c.spec, 1), model.Options{Neurons: model.Neurons{Sparse: c.mode}}, 1<<30)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v, want a line with %q", c.spec.Magic, c.mode, err, c.want)
		}
	}
}
