package vulkan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// kept is a device that its models do not close: they give their memory back, and its pipelines stay compiled.
type kept struct{ *Device }

func (k kept) Close() error {
	k.reset()
	return k.gpu.Lost
}

// The models of these tests have this many layers, and this many experts in each.
const (
	layersOfFamilies  = 2
	expertsOfFamilies = 8
)

// budget says which part of each layer is on the GPU.
type budget struct {
	name    string
	experts int
	slots   bool // experts follow the text
	head    bool
}

// places returns the budget's places for this many layers.
func (b budget) places(layers int) []compute.Place {
	y := compute.Place{Split: compute.Split{Bound: b.experts, Slots: b.slots}, Attention: true}
	places := slices.Repeat([]compute.Place{y}, layers)
	return append(places, compute.Place{Attention: b.head})
}

// eager makes experts move to the GPU as soon as they are used more than others, between two steps.
func eager() hybrid.Slots {
	tuning := residency.Tuned()
	tuning.Doubt = 0
	return hybrid.Slots{Speeds: residency.Speeds{RAM: 1, GPU: 10, Bus: 100}, Tuning: tuning, AtOnce: true}
}

// loadSplit loads a model on the GPU and a processor of its own, which Close of the device returned gives back.
func loadSplit(t *testing.T, f *gguf.File, gpu hybrid.GPU, places []compute.Place, s hybrid.Slots) (*model.Model, *hybrid.Device) {
	t.Helper()
	host, err := cpu.New(cpu.Options{Threads: 1, Floats: true})
	if err != nil {
		t.Fatal(err)
	}
	d := hybrid.New(gpu, host, slices.Repeat([]bool{true}, len(places)-1))
	d.FollowUse(s)
	m, err := model.Load(t.Context(), f, d, model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Neurons: model.Neurons{Sparse: model.Off}, Places: places})
	if err != nil {
		d.Close()
		t.Fatal(err)
	}
	return m, d
}

// greedy returns the likeliest n tokens after a prompt, one by one, and the logits that each was chosen by.
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

// expertFamilies holds models of every family with experts to the processor: on every budget of the GPU they say the
// same text, with the same logits. Where the test is not exhaustive, two families have every budget and the others take
// turns with them.
func expertFamilies(t *testing.T, gpu *Device) {
	const said = 6
	whole, quick := testenv.Exhaustive(t), testenv.Quick(t)
	budgets := []budget{{name: "no experts"}, {name: "three", experts: 3, head: true}, {name: "all", experts: expertsOfFamilies, head: true}, {name: "slots", experts: 3, slots: true}}
	turn := 0
	for _, family := range lineage.All() {
		if family.Experts == nil || family.Headless || quick && !slices.Contains(quickFamilies, family.Name) {
			continue
		}
		own := budgets
		if !whole && !slices.Contains([]string{"qwen3moe", "deepseek2"}, family.Name) {
			own = budgets[turn%len(budgets):][:1]
			turn++
		}
		t.Run(family.Name, func(t *testing.T) {
			f, text, logits := decided(t, synth.Spec{
				Arch: family.Name, Type: quant.F32, Layers: layersOfFamilies, Embd: 128, FF: 64, Heads: 4, Experts: expertsOfFamilies, Used: 2, Vocab: 320, Sparsity: 0.5,
			}, said)
			for _, b := range own {
				b.check(t, f, gpu, text, logits)
			}
			shared.messages.check(t)
		})
	}
	if quick {
		return
	}
	t.Run("faults", func(t *testing.T) { expertFaults(t, gpu) })
}

// check holds a model on the budget to the text and the logits of the processor.
func (b budget) check(t *testing.T, f *gguf.File, gpu *Device, text []int32, logits [][]float32) {
	t.Helper()
	m, d := loadSplit(t, f, kept{gpu}, b.places(layersOfFamilies), eager())
	got, rows := greedy(t, m, len(text))
	for i := range text {
		if err := closeTo(rows[i], logits[i], floatLogits); err != nil {
			t.Errorf("%s: token %d: %v", b.name, i, err)
			break
		}
	}
	if !slices.Equal(got, text) {
		t.Errorf("%s: the text is %v, not %v", b.name, got, text)
	}
	if use := d.Usage().Slots; b.slots && b.experts < expertsOfFamilies != (use.Hits > 0 && use.Misses > 0) {
		t.Errorf("%s: %+v", b.name, use)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// expertFaults has a model with experts meet slots of every number, numbers that are none, and a GPU that is lost while
// an expert is on its way to it.
func expertFaults(t *testing.T, gpu *Device) {
	spec := synth.Spec{Arch: "qwen3moe", Type: quant.F32, Layers: layersOfFamilies, Embd: 128, FF: 64, Heads: 4, Experts: expertsOfFamilies, Used: 2, Vocab: 320, Sparsity: 0.5}
	f, text, logits := decided(t, spec, 6)
	for _, n := range []int{1, expertsOfFamilies - 1, expertsOfFamilies, expertsOfFamilies + 5} {
		budget{name: fmt.Sprintf("%d slots", n), experts: n, slots: true}.check(t, f, gpu, text, logits)
	}
	copiesBeside(t, f, gpu)
	lostCopies(t, f, gpu)
	for _, c := range []struct {
		tensor string
		from   int // the first byte that is damaged
	}{{"blk.0.ffn_gate_inp.weight", 0}, {"blk.1.ffn_gate_exps.weight", 0}, {"blk.1.ffn_gate_exps.weight", 4 * 64 * 128 * 5}} {
		damaged := synthtest.File(t, spec)
		data := damaged.Tensor(c.tensor).Data[c.from:]
		for i := 0; i < 4*128*64 && i < len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(float32(math.NaN())))
		}
		m, err := model.Load(t.Context(), damaged, onCPU(t), model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Neurons: model.Neurons{Sparse: model.Off}})
		if err != nil {
			t.Fatal(err)
		}
		want := numberless(t, m)
		for _, b := range []budget{{name: "three", experts: 3}, {name: "all", experts: expertsOfFamilies}, {name: "slots", experts: 3, slots: true}} {
			m, d := loadSplit(t, damaged, kept{gpu}, b.places(layersOfFamilies), eager())
			if got := numberless(t, m); !slices.Equal(got, want) || !slices.Contains(got, true) {
				t.Errorf("%s with NaN from byte %d on, %s: steps without numbers %v, the processor's %v", c.tensor, c.from, b.name, got, want)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// numberless evaluates tokens one by one, each in a text of its own, and tells of each whether its logits are NaN: the
// engine refuses to go on with these.
func numberless(t *testing.T, m *model.Model) (steps []bool) {
	t.Helper()
	for id := range int32(12) {
		s := sequence{m: m, pages: []int32{1, 0}}
		row := s.step(t, []int32{20 * id})[0]
		steps = append(steps, slices.ContainsFunc(row, func(v float32) bool { return v != v }))
	}
	return steps
}

// setBeside makes copies to a GPU run at the same time as computation until the returned function is called. On
// lavapipe they go to the queue that computes, with their own timeline.
func setBeside(gpu *Device) func() {
	before := gpu.beside
	gpu.beside = true
	return func() { gpu.beside = before }
}

// copiesBeside has experts staged and copied whole while steps are computed: the text is the processor's.
func copiesBeside(t *testing.T, f *gguf.File, gpu *Device) {
	defer setBeside(gpu)()
	want, err := model.Load(t.Context(), f, onCPU(t), model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Neurons: model.Neurons{Sparse: model.Off}})
	if err != nil {
		t.Fatal(err)
	}
	const tokens = 40
	text, logits := greedy(t, want, tokens)
	s := eager()
	s.AtOnce = false
	b := budget{experts: 3, slots: true}
	m, d := loadSplit(t, f, kept{gpu}, b.places(layersOfFamilies), s)
	for range 5 {
		got, rows := greedy(t, m, tokens)
		for i := range got {
			if err := closeTo(rows[i], logits[i], floatLogits); err != nil {
				t.Fatalf("experts that are copied beside steps, token %d: %v", i, err)
			}
			if got[i] != text[i] {
				break // from here on it is another text
			}
		}
	}
	if use := d.Usage().Slots; use.Promotions == 0 {
		t.Errorf("no expert was copied: %+v", use)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// losing is a GPU that is lost after a number of pieces of experts were sent to it.
type losing struct {
	kept
	left *int
}

type losingStage struct {
	compute.RowStage
	left *int
}

var errLosing = errors.New("lost in a test")

func (g losing) RowStage(bytes int64) (compute.RowStage, error) {
	s, err := g.kept.RowStage(bytes)
	return losingStage{s, g.left}, err
}

func (s losingStage) Send(most int64) (int64, bool, error) {
	if *s.left--; *s.left < 0 {
		return 0, false, errLosing
	}
	return s.RowStage.Send(most)
}

// lostCopies loses the GPU at the first and at the second piece of an expert: the step says that it was the GPU, and
// closing ends what is under way.
func lostCopies(t *testing.T, f *gguf.File, gpu *Device) {
	for left := range 2 {
		b := budget{experts: 3, slots: true}
		m, d := loadSplit(t, f, losing{kept{gpu}, &left}, b.places(layersOfFamilies), eager())
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			p := compute.Params{Tokens: []int32{int32(13*i + 1)}, Pages: [][]int32{{1, 0}}, Seq: []int32{0}, Pos: []int32{int32(i)}, Out: []int32{0}}
			err = m.Forward(&p)
		}
		if of := (*hybrid.GPUError)(nil); !errors.As(err, &of) || !errors.Is(err, errLosing) {
			t.Errorf("the GPU was lost while an expert was on its way: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// decided returns a model as described, of the first seed that has no two tokens so alike that rounding decides between
// them, and its greedy text on the processor.
func decided(t *testing.T, s synth.Spec, n int) (f *gguf.File, text []int32, logits [][]float32) {
	t.Helper()
	d := onCPU(t)
	for s.Seed = 1; s.Seed < 10; s.Seed++ {
		f = synthtest.File(t, s)
		m, err := model.Load(t.Context(), f, d, model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Neurons: model.Neurons{Sparse: model.Off}})
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
