package vulkan

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestMeanwhile: in every replay the host's idle time comes before its turn. Once it is ready, the host sees what ran
// during the turn before.
func TestMeanwhile(t *testing.T) {
	d := lent(t)
	g := ground(t, d)
	const n = 3
	x, k := g.x.First(n), g.k.First(n)
	var calls []string
	var idle float32
	for step, tokens := range [][]int32{{2, 5, 1}, {8, 0, 3}, {1, 1, 4}} {
		calls = nil
		err := d.Run(compute.Segment{Name: "layers", Rows: n}, &compute.Params{Tokens: tokens}, func(v compute.Verbs) {
			r := v.Executor().(*recorder)
			v.Embed(x, g.table)
			v.Embed(k, g.table)
			var shown func() []float32
			r.Overlap(func(*compute.Params) error { calls = append(calls, "turn"); return nil }, func() {
				v.Add(k, x)
				shown = r.Download(k)
			})
			v.Add(x, x)
			r.Meanwhile(func(ready, done func() bool) {
				calls = append(calls, "idle")
				for !ready() {
				}
				idle = shown()[0]
				for !done() {
				}
			})
			r.Overlap(func(*compute.Params) error { calls = append(calls, "turn"); return nil }, nil)
			v.Add(x, k)
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"turn", "idle", "turn"}; !slices.Equal(calls, want) {
			t.Errorf("step %d: %v, want %v", step, calls, want)
		}
		if want := 2 * (float32(int(tokens[0])*replayCols%37) - float32(tokens[0])/8); idle != want {
			t.Errorf("step %d: the host saw %g meanwhile, want %g", step, idle, want)
		}
	}
	if err := d.Run(compute.Segment{Name: "busy", Rows: n}, &compute.Params{Tokens: []int32{1, 2, 3}}, func(v compute.Verbs) {
		if v.Executor().(*recorder).Idles() {
			t.Error("the host has time beside a device that needs its cores")
		}
		v.Embed(x, g.table)
	}); err != nil {
		t.Error(err)
	}
}

// reading is a host that counts what it reads ahead.
type reading struct {
	*cpu.Device
	layers int
}

func (r *reading) ReadAhead(s compute.Set, w compute.SparseWeights, done func() bool) {
	r.layers++
	r.Device.ReadAhead(s, w, done)
}

// patient is a device that gives the host time until there is a guess, however fast it is.
type patient struct{ *Device }

type patientRecorder struct{ *recorder }

func (d patient) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return d.Device.Run(seg, p, func(v compute.Verbs) { body(compute.NewVerbs(patientRecorder{v.Executor().(*recorder)})) })
}

func (r patientRecorder) Meanwhile(f func(ready, done func() bool)) {
	r.recorder.Meanwhile(func(ready, done func() bool) {
		seen := false
		f(func() bool { seen = ready(); return seen }, func() bool { return seen && done() })
	})
}

// TestReadAhead: guesses on the GPU, and what the host reads ahead by them, change no byte of a text.
func TestReadAhead(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, 3)
	place := compute.Place{Split: compute.Split{Bound: 256}, Attention: true, Predictor: true}
	const tokens = 8
	var texts [2][][]float32
	for i := range texts {
		d, messages := software(t, Options{})
		host := &reading{Device: onCPU(t).(*cpu.Device)}
		dev := hybrid.New(patient{d}, host, []bool{true, true, true})
		if i > 0 {
			dev.ReadAhead(hybrid.Always) // also with a device that needs the cores
		}
		m, err := model.Load(t.Context(), f, dev, model.Options{
			Batch: 16, Outputs: 16, Cache: compute.CacheSpec{Pages: 6}, Neurons: model.Neurons{Sparse: model.Predict}, Places: []compute.Place{place, place, place, {Attention: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := sequence{m: m, pages: []int32{1, 0}}
		texts[i] = s.step(t, []int32{1, 40, 300, 17, 99, 261, 5})
		for token := range tokens {
			texts[i] = append(texts[i], s.step(t, []int32{int32(50 * token)})...)
		}
		d.Close()
		messages.check(t)
		if want := 2 * tokens * i; host.layers != want { // not in the first layer
			t.Errorf("%d layers were read ahead, want %d", host.layers, want)
		}
	}
	for i := range texts[0] {
		if !slices.Equal(texts[0][i], texts[1][i]) {
			t.Fatalf("token %d: other bytes where the host reads ahead", i)
		}
	}
}
