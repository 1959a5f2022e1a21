package vulkan

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// kept is a device that its models do not close: they give their memory back, and its pipelines stay compiled.
type kept struct{ *Device }

func (k kept) Close() error {
	k.reset()
	return k.gpu.Lost
}

// budget says what of each layer lies on the GPU.
type budget struct {
	name    string
	experts int
	slots   bool // experts follow the text
	head    bool
}

// places returns the budget's places for so many layers.
func (b budget) places(layers int) []compute.Place {
	y := compute.Place{Split: compute.Split{Bound: b.experts, Slots: b.slots}, Attention: true}
	places := slices.Repeat([]compute.Place{y}, layers)
	return append(places, compute.Place{Attention: b.head})
}

// eager has experts come to the GPU as soon as they are used more than others, between two steps.
func eager() hybrid.Slots {
	tuning := residency.Tuned()
	tuning.Doubt = 0
	return hybrid.Slots{Speeds: residency.Speeds{RAM: 1, GPU: 10, Bus: 100}, Tuning: tuning, AtOnce: true}
}

// loadSplit loads a model on the GPU and a processor of its own, which Close of the device returned gives back.
func loadSplit(t *testing.T, f *gguf.File, gpu *Device, places []compute.Place, s hybrid.Slots) (*model.Model, *hybrid.Device) {
	t.Helper()
	host, err := cpu.New(cpu.Options{Threads: 1, Set: exactSet()})
	if err != nil {
		t.Fatal(err)
	}
	d := hybrid.New(kept{gpu}, host, slices.Repeat([]bool{true}, len(places)-1))
	d.FollowUse(s)
	m, err := model.Load(t.Context(), f, d, model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Sparse: model.Off, Places: places})
	if err != nil {
		d.Close()
		t.Fatal(err)
	}
	return m, d
}

// greedy returns the likeliest n tokens behind a prompt, one by one, and the logits that each was chosen by.
func greedy(t *testing.T, m *model.Model, n int) (text []int32, logits [][]float32) {
	t.Helper()
	s := sequence{m: m, pages: []int32{1, 0}}
	tokens := []int32{1, 40, 300, 17, 99}
	for range n {
		rows := s.step(t, tokens)
		last := rows[len(rows)-1]
		id, _ := top(last)
		text, logits, tokens = append(text, int32(id)), append(logits, last), []int32{int32(id)}
	}
	return text, logits
}

// expertFamilies holds models of every family with experts to the processor: on every budget of the GPU they say the same text, with the same logits.
func expertFamilies(t *testing.T, gpu *Device, messages *messages) {
	const layers, experts, said = 2, 8, 6
	budgets := []budget{{name: "no experts"}, {name: "three", experts: 3, head: true}, {name: "all", experts: experts, head: true}, {name: "slots", experts: 3, slots: true}}
	for _, family := range arch.All() {
		if family.Experts == nil || family.Headless {
			continue
		}
		t.Run(family.Name, func(t *testing.T) {
			f, text, logits := decided(t, synth.Spec{
				Arch: family.Name, Type: quant.F32, Layers: layers, Embd: 128, FF: 64, Heads: 4, Experts: experts, Used: 2, Vocab: 320, Sparsity: 0.5,
			}, said)
			for _, b := range budgets {
				m, d := loadSplit(t, f, gpu, b.places(layers), eager())
				got, rows := greedy(t, m, said)
				for i := range min(len(text), len(got)) {
					if err := closeTo(rows[i], logits[i], floatLogits); err != nil {
						t.Errorf("%s: token %d: %v", b.name, i, err)
						break
					}
				}
				if !slices.Equal(got, text) {
					t.Errorf("%s: the text is %v, not %v", b.name, got, text)
				}
				if use := d.SlotUse(); b.slots != (use.Hits > 0 && use.Misses > 0) {
					t.Errorf("%s: %+v", b.name, use)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
			messages.check(t)
		})
	}
}

// decided returns a model as described, of the first seed that has no two tokens so alike that rounding decides between them, and its greedy text on
// the processor.
func decided(t *testing.T, s synth.Spec, n int) (f *gguf.File, text []int32, logits [][]float32) {
	t.Helper()
	d := onCPU(t)
	for s.Seed = 1; s.Seed < 10; s.Seed++ {
		f = synthtest.File(t, s)
		m, err := model.Load(t.Context(), f, d, model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Sparse: model.Off})
		if err != nil {
			t.Fatal(err)
		}
		text, logits = greedy(t, m, n)
		if !slices.ContainsFunc(logits, func(row []float32) bool {
			id, gap := top(row)
			return gap < 2*floatLogits*row[id]
		}) {
			t.Logf("seed %d", s.Seed)
			return f, text, logits
		}
	}
	t.Fatal("rounding decides between tokens of all models that were tried")
	return nil, nil, nil
}
