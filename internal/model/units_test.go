package model_test

import (
	"cmp"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

var everyFamily = flag.Bool("every-family", false, "have experts of all families on disk, not of one of each kind")

// TestExpertsOnDisk: models with experts on disk, and RAM for some of them, give the same bytes of logits and hidden
// states as in RAM. It tests every kind of step: prompts, tokens, several sequences, drafts, and MTP layers. It also
// tests adapters, biases, gates and ups in one tensor, and skipped neurons of experts.
func TestExpertsOnDisk(t *testing.T) {
	kinds := []string{"the usual model", "optional tensors", "gates and ups of experts in one tensor", "experts with predictors", "a layer that predicts a further token"}
	families := strings.Fields("deepseek4 glm4moe gpt-oss grovemoe smallthinker")
	if *everyFamily {
		families = slices.Sorted(maps.Keys(tracedFamilies()))
	}
	for _, family := range testenv.Few(t, 2, families) {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			misses := int64(0)
			for _, m := range tracedModels(t, family) {
				if !storable(m.file) || !*everyFamily && !slices.Contains(kinds, m.name) {
					continue
				}
				f := stored(t, m.file)
				for _, l := range m.loads {
					if l.gpu || l.observed || l.shaped || l.options.Pinned {
						continue
					}
					want, _, err := steps(t, f, l, 0)
					if err != nil && l.refused {
						continue
					}
					whole, use, all := steps(t, f, l, math.MaxInt32)
					part, less, some := steps(t, f, l, use.OnDisk/3)
					if err = cmp.Or(err, all, some); err != nil {
						t.Fatalf("%s, %s: %v", m.name, l.name, err)
					}
					misses += less.Misses
					for i := range want {
						for _, got := range [][]stepRows{whole, part} {
							if at := differ(got[i].rows, want[i].rows); at >= 0 {
								t.Errorf("%s, %s, %s: row %d is not what it is in RAM", m.name, l.name, want[i].name, at)
							}
						}
					}
				}
			}
			if misses == 0 && !*everyFamily {
				t.Error("nothing was read from disk")
			}
		})
	}
}

// storable reports whether a model has experts and could be on disk: on paper, tensors need no data.
func storable(f *gguf.File) bool {
	whole := func(w *gguf.Tensor) bool { return int64(len(w.Data)) == w.Bytes() }
	experts := func(w *gguf.Tensor) bool { return strings.HasSuffix(w.Name, "down_exps.weight") }
	return f.Magic == "GGUF" && slices.ContainsFunc(f.Tensors, experts) && !slices.ContainsFunc(f.Tensors, func(w *gguf.Tensor) bool { return !whole(w) })
}

// stored returns f as a file on disk, with random numbers in tensors of floats that hold zeros.
func stored(t *testing.T, f *gguf.File) *gguf.File {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 7))
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		if (w.Type == quant.F16 || w.Type == quant.F32) && !slices.ContainsFunc(w.Data, func(b byte) bool { return b != 0 }) {
			w = &gguf.Tensor{Name: w.Name, Type: w.Type, Shape: w.Shape, Data: random(r, w)}
		}
		tensors = append(tensors, synthtest.Copied(w, w.Name))
	}
	return synthtest.Made(t, f.Keys, tensors)
}

func random(r *rand.Rand, w *gguf.Tensor) []byte {
	x, data := make([]float32, w.Elems()), make([]byte, w.Bytes())
	for i := range x {
		x[i] = float32(r.NormFloat64()) / 8
	}
	quant.Encode(w.Type, data, x)
	return data
}

// stepRows are a step's logits and hidden states.
type stepRows struct {
	name string
	rows [][]float32
}

// steps returns the results of all steps of f, loaded as l says. If unitCache is not 0, experts stay on disk, and RAM
// has this many bytes for them. use counts what the device did with them.
func steps(t *testing.T, f *gguf.File, l loading, unitCache int64) (list []stepRows, use compute.UnitUse, err error) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 1, UnitCache: unitCache})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	o := l.options
	o.Batch, o.Outputs, o.OnDisk = 16, 8, unitCache > 0
	o.Cache = compute.CacheSpec{Pages: 8, States: 4, Near: o.Cache.Near}
	m, err := model.Load(t.Context(), f, dev, o)
	if err != nil {
		return nil, use, err
	}
	for _, step := range stepsOf(m, f, l) {
		rows, err := step.run()
		if err != nil {
			return nil, use, err
		}
		list = append(list, stepRows{step.name, rows})
	}
	return list, dev.Usage().Units, nil
}
