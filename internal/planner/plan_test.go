package planner

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// lavapipes returns a machine with this many GPUs, all of them lavapipe, with ten times RAM's bandwidth.
func lavapipes(t *testing.T, gpus int) *Machine {
	t.Helper()
	info, err := vulkan.Chosen(vulkan.Software)
	if errors.Is(err, vulkan.ErrNone) {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{stated: placement.Machine{Stream: 20e9, Rows: 5e9}}
	for range gpus {
		m.gpus = append(m.gpus, gpu{name: info.Name, info: info, device: vulkan.Software, memory: 1 << 40, read: 500e9})
	}
	return m
}

// TestPlanned: for families, modes and sizes of steps of each kind, within any budget and with every way of streaming, what a plan
// says a GPU will hold is the memory that it holds after load, to the byte, and no step needs more.
func TestPlanned(t *testing.T) {
	testenv.Thorough(t)
	type planned struct {
		spec          synth.Spec // no architecture: the demo
		mode          model.SparseMode
		context       int
		batch, ubatch int
		share         float64 // budget of all GPUs together: this share of the weights, and on top of it the most that computing may take
		stream        int     // tokens
		whole         int     // layers; 0: by neuron
		gpus          int     // 0: 1
	}
	for _, c := range testenv.Few(t, 1, testenv.Some(t, 8, []planned{
		{mode: model.Predict, context: 256, share: 0.5, stream: 1},
		{mode: model.Off, context: 256, ubatch: 64, share: 0.4, whole: 2, stream: 8},
		{spec: synth.Spec{Arch: "gemma2", Type: quant.Q4_0}, mode: model.Off, context: 256, ubatch: 64, share: 0, whole: -1, stream: 8},
		{spec: synth.Spec{Arch: "qwen2", Type: quant.F16}, mode: model.Exact, context: 256, batch: 32, ubatch: 512, share: 0.3},
		{spec: synth.Spec{Arch: "falcon", Type: quant.F16, Magic: "PWRI"}, mode: model.Predict, context: 128, share: 2},
		{spec: synth.Spec{Arch: "llama", Type: quant.Q8_0}, mode: model.Exact, context: 256, ubatch: 64, share: 0.8, stream: 32, gpus: 2},
		{spec: synth.Spec{Arch: "llama", Type: quant.IQ2_XXS}, mode: model.Exact, context: 256, share: 0.5}, // larger on GPUs than in files
		{spec: synth.Spec{Arch: "gemma3n", Type: quant.F16}, mode: model.Off, context: 256, share: 0.6},
		{mode: model.Exact, context: 1024, ubatch: 64, share: 2},
		{mode: model.Off, context: 256, share: 0.4, whole: 2},
		{spec: synth.Spec{Arch: "llama", Type: quant.Q4_0}, mode: model.Exact, context: 512, share: 0.5, stream: 32},
		{spec: synth.Spec{Arch: "llama", Type: quant.MXFP4}, mode: model.Off, context: 64, share: 0.4, stream: 1},
		{mode: model.Predict, context: 256, share: 0.5},
		{spec: synth.Spec{Arch: "llama", Type: quant.Q8_0}, mode: model.Off, context: 64, ubatch: 8, share: 2},
		{spec: synth.Spec{Arch: "qwen3", Type: quant.Q8_0}, mode: model.Exact, context: 256, ubatch: 100, share: 0.9},
		{spec: synth.Spec{Arch: "bamboo", Type: quant.Q4_0, Magic: "PWRI"}, mode: model.Predict, context: 512, share: 0.6},
		{spec: synth.Spec{Arch: "falcon", Type: quant.Q8_0}, mode: model.Off, context: 512, ubatch: 256, share: 0.5, whole: 1},
		{spec: synth.Spec{Arch: "opt", Type: quant.F16}, mode: model.Exact, context: 512, share: 0.4},
		{spec: synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, mode: model.Predict, context: 256, ubatch: 64, share: 0.2, stream: 1},
		{spec: synth.Spec{Arch: "gemma4", Type: quant.Q8_0}, mode: model.Exact, context: 256, ubatch: 64, share: 0.6, gpus: 2},
		{spec: synth.Spec{Arch: "opt", Type: quant.Q4_0, Magic: "PWRI"}, mode: model.Predict, context: 256, ubatch: 1, share: 0.7},
	})) {
		name := c.spec.Arch
		if name == "" {
			name = "demo"
		}
		t.Run(fmt.Sprintf("%s %s -c %d -ub %d", name, c.mode, c.context, c.ubatch), func(t *testing.T) {
			var f *gguf.File
			if c.spec.Arch == "" {
				var err error
				if f, err = gguf.Parse(demo.Name, demo.Model()); err != nil {
					t.Fatal(err)
				}
			} else {
				f = synthtest.Sparse(t, c.spec, 4)
			}
			o := engine.Options{Limits: engine.Limits{Context: c.context, Batch: c.batch, UBatch: c.ubatch}, Neurons: engine.Neurons{Sparse: c.mode}}
			b, err := modelcost.Of(f, modelcost.Options{Context: o.Context, UBatch: o.LargestStep(), Neurons: model.Neurons{Sparse: c.mode}, Law: modelcost.UsualLaw()})
			if err != nil {
				t.Fatal(err)
			}
			m := lavapipes(t, max(1, c.gpus))
			po := Options{Processor: Processor{Threads: 1}, GPUs: GPUs{VRAM: []int64{budget(t, m, b, c.stream, c.share)}, StreamTokens: &c.stream}}
			if whole := max(0, c.whole); c.whole != 0 { // negative: none
				po.Layers = &whole
			}
			p := With(m, b, po)
			o.Devices = p
			e, err := engine.Open(t.Context(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			for _, g := range p.gpus {
				if n := g.Unforeseen(); n > 0 {
					t.Errorf("%d shaders were not foreseen", n)
				}
			}
			before := p.Usage()
			if len(before) != len(m.gpus) {
				t.Fatalf("%d GPUs are in use, not %d", len(before), len(m.gpus))
			}
			for _, use := range before {
				if use.Used != use.Planned || use.Planned > use.Budget {
					t.Errorf("%d bytes are planned and %d in use, of a budget of %d", use.Planned, use.Used, use.Budget)
				}
			}
			ids := e.Tokenizer().Encode(strings.Repeat("the quick brown fox jumps over a lazy dog ", 2), true, true)
			greedy(t, e, ids[:min(len(ids), c.context-8)], 2)
			var group sync.WaitGroup
			for i := range 3 { // steps of single tokens and parts of prompts, with padding
				group.Go(func() { greedy(t, e, ids[i:min(len(ids), 11*i+3, c.context-8)], 3) })
			}
			group.Wait()
			if after := p.Usage(); !slices.Equal(after, before) {
				t.Errorf("%+v after four texts, and %+v before", after, before)
			}
		})
	}
}

// TestHeadPlanned: what is planned of a draft head for the GPU of the model's head is in use there, and HeadInRAM keeps it
// in RAM.
func TestHeadPlanned(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.File(t, synth.Spec{Arch: "llama", Layers: 4, Embd: 64, FF: 96, Heads: 4, Type: quant.F16, Activation: "silu", Seed: 3})
	h := synthtest.Head{Layers: []int{1, 2, 4}, Embd: 64, Heads: 4, FF: 96, Depth: 2, Block: 4, Mask: 17, Seed: 1}
	for name, head := range map[string]*gguf.File{"eagle3": synthtest.Eagle3(t, f, synthtest.Head{Layers: h.Layers, Embd: 64, Heads: 4, FF: 96, Known: 100, Own: true}), "dflash": synthtest.DFlash(t, f, h)} {
		eo := engine.Options{Limits: engine.Limits{Context: 256, UBatch: 32}, Drafts: engine.Drafts{Most: 3, NoLookup: true, Hot: engine.HotNever}, Head: head}
		b, err := modelcost.Of(f, modelcost.Options{Context: eo.Context, UBatch: eo.LargestStep(), Drafts: eo.DraftRows(), Further: true, Head: head, Law: modelcost.UsualLaw()})
		if err != nil {
			t.Fatal(err)
		}
		for _, inRAM := range []bool{false, true} {
			o := Options{GPUs: GPUs{VRAM: []int64{1 << 30}}, HeadInRAM: inRAM}
			o.Processor.Threads = 1
			p, now := With(lavapipes(t, 1), b, o), new(atomic.Int64)
			eo.Devices, eo.Clock = p, func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond }
			e, err := engine.Open(t.Context(), f, eo)
			if err != nil {
				t.Fatal(err)
			}
			y := p.plan.Layout()
			if y.Further() == inRAM {
				t.Errorf("%s: the head is on the GPU: %v, and in RAM it should be: %v", name, y.Further(), inRAM)
			}
			_, guesses := guessing(t, e, []int32{5, 6, 7, 8, 9}, 40)
			for _, use := range p.Usage() {
				if use.Used != use.Planned || guesses == 0 {
					t.Errorf("%s: %d bytes are planned and %d in use after %d guesses", name, use.Planned, use.Used, guesses)
				}
			}
			e.Close()
		}
	}
}

// TestFurtherPlanned: the layer that predicts a further token is on the head's GPU if there is room for all of it,
// unless the user says what is on GPUs. The memory in use is the planned memory, and the text is the same.
func TestFurtherPlanned(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.Further(t, synth.Spec{Arch: "glm4moe", Layers: 4, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: 4, Used: 2, Activation: "silu", Seed: 3}, true)
	eo := engine.Options{Limits: engine.Limits{Context: 256, UBatch: 32}, Drafts: engine.Drafts{Most: 3, Further: true, NoLookup: true, Hot: engine.HotNever}}
	b, err := modelcost.Of(f, modelcost.Options{Context: eo.Context, UBatch: eo.LargestStep(), Drafts: eo.DraftRows(), Further: true, Law: modelcost.UsualLaw()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	further := int64(2 * 2 * eo.Context * c.KVHeads * c.HeadDim) // keys and values in F16
	vectors := int64(0)                                          // on every device
	for _, w := range f.Tensors {
		if strings.HasPrefix(w.Name, fmt.Sprintf("blk.%d.", c.Layers)) && !strings.HasSuffix(w.Name, "embed_tokens.weight") {
			further += w.Bytes()
			if len(w.Shape) == 1 {
				vectors += w.Bytes()
			}
		}
	}
	prompt := []int32{5, 6, 7, 8, 9}
	run := func(gpus int, o Options) (on bool, planned []int64, ids []int32, guesses int) {
		o.Processor.Threads = 1
		p, now := With(lavapipes(t, gpus), b, o), new(atomic.Int64)
		eo.Devices, eo.Clock = p, func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond }
		e, err := engine.Open(t.Context(), f, eo)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, use := range p.Usage() {
			if use.Used != use.Planned || use.Planned > use.Budget {
				t.Errorf("%d bytes are planned and %d in use, of a budget of %d", use.Planned, use.Used, use.Budget)
			}
			planned = append(planned, use.Planned)
		}
		bytes, y := p.plan.Bytes, p.plan.Layout()
		for _, layer := range p.plan.Priced {
			bytes -= layer.VRAM
		}
		if y.Further() && bytes != further {
			t.Errorf("the further layer is counted as %d bytes on the GPU, want %d", bytes, further)
		}
		before := p.Usage()
		ids, guesses = guessing(t, e, prompt, 60)
		if after := p.Usage(); !slices.Equal(after, before) {
			t.Errorf("%+v after a text, and %+v before", after, before)
		}
		return y.Further(), planned, ids, guesses
	}
	few := 3
	on, one, want, guesses := run(1, Options{GPUs: GPUs{VRAM: []int64{1 << 30}}})
	if !on || guesses == 0 {
		t.Errorf("with room for it the further layer lies on the GPU: %v; %d guesses", on, guesses)
	}
	for name, c := range map[string]struct {
		gpus int
		o    Options
		on   bool
	}{
		"with room for the last byte": {1, Options{GPUs: GPUs{VRAM: one}}, true},
		"with a byte less":            {1, Options{GPUs: GPUs{VRAM: []int64{one[0] - 1}}}, false},
		"on the second of two":        {2, Options{GPUs: GPUs{VRAM: []int64{one[0] - 1}}}, true},
		"some layers":                 {1, Options{GPUs: GPUs{VRAM: []int64{1 << 30}, Layers: &few}}, false},
		"keys and values in RAM":      {1, Options{GPUs: GPUs{VRAM: []int64{1 << 30}, KVInRAM: true}}, false},
		"tensors":                     {1, Options{GPUs: GPUs{VRAM: []int64{1 << 30}, Tensors: []string{`blk\.0\.=CPU`}}}, false},
	} {
		on, planned, ids, guesses := run(c.gpus, c.o)
		if on != c.on || len(planned) == 0 || guesses == 0 {
			t.Errorf("%s: the further layer lies on a GPU: %v, want %v; %d GPUs, %d guesses", name, on, c.on, len(planned), guesses)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", name, ids, want)
		}
		if name == "with a byte less" && one[0]-planned[0] < further-vectors {
			t.Errorf("the GPU holds %d bytes with the further layer and %d without: %d more are the layer's", one[0], planned[0], further-vectors)
		}
	}
}

// TestFurtherBesideSlots: the layer that predicts a further token is on the head's GPU also if experts follow the text
// and their slots leave room for it. The GPU has room for all experts of four layers except one expert. The slots of
// that layer may take one expert's bytes, and the rest is more than the further layer's experts take in Q8_0.
func TestFurtherBesideSlots(t *testing.T) {
	testenv.Thorough(t)
	whole := synthtest.Further(t, synth.Spec{Arch: "glm4moe", Layers: 5, Embd: 64, FF: 32, Heads: 4, Type: quant.F32, Experts: 16, Used: 2, Activation: "silu", Seed: 3}, false)
	var tensors []gguf.Source
	for _, w := range whole.Tensors {
		src := synthtest.Copied(w, w.Name)
		if strings.HasPrefix(w.Name, "blk.4.") && strings.Contains(w.Name, "_exps.") {
			x, data := make([]float32, w.Elems()), make([]byte, quant.Q8_0.RowBytes(w.Elems()))
			quant.Decode(w.Type, x, w.Data)
			quant.Encode(quant.Q8_0, data, x)
			src.Type, src.Write = quant.Q8_0, func(to io.Writer) error {
				_, err := to.Write(data)
				return err
			}
		}
		tensors = append(tensors, src)
	}
	f := synthtest.Made(t, whole.Keys, tensors)
	eo := engine.Options{Limits: engine.Limits{Context: 256, UBatch: 32}, Drafts: engine.Drafts{Most: 3, Further: true, NoLookup: true, Hot: engine.HotNever}}
	b, err := modelcost.Of(f, modelcost.Options{Context: eo.Context, UBatch: eo.LargestStep(), Drafts: eo.DraftRows(), Further: true, Law: modelcost.UsualLaw()})
	if err != nil {
		t.Fatal(err)
	}
	m := lavapipes(t, 1)
	expert := b.Model.Layers[1].Units.Size
	all, err := With(m, b, Options{GPUs: GPUs{VRAM: []int64{1 << 30}}}).Solve()
	if err != nil {
		t.Fatal(err)
	}
	now := new(atomic.Int64)
	p := With(m, b, Options{Processor: Processor{Threads: 1}, GPUs: GPUs{VRAM: []int64{all.Plan.VRAM[0] - 1}, MoECache: &expert}})
	eo.Devices, eo.Clock = p, func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond }
	e, err := engine.Open(t.Context(), f, eo)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	y := p.plan.Layout()
	if !y.Further() || !slices.ContainsFunc(y.Places, func(at compute.Place) bool { return at.Slots }) {
		t.Errorf("the further layer lies on the GPU: %v; the places are %+v", y.Further(), y.Places)
	}
	if use := p.Usage()[0]; use.Used != use.Planned || use.Planned > use.Budget {
		t.Errorf("%d bytes are planned and %d in use, of a budget of %d", use.Planned, use.Used, use.Budget)
	}
	got, guesses := guessing(t, e, []int32{5, 6, 7, 8, 9}, 60)
	eo.Devices = CPU(Processor{Threads: 1})
	alone, err := engine.Open(t.Context(), f, eo)
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if want, _ := guessing(t, alone, []int32{5, 6, 7, 8, 9}, 60); !slices.Equal(got, want) || guesses == 0 {
		t.Errorf("%v and %d guesses, want %v and some", got, guesses, want)
	}
}

// guessing returns the likeliest tokens after a prompt, and how many guesses of the further layer were checked.
func guessing(t *testing.T, e *engine.Engine, prompt []int32, n int) (ids []int32, guesses int) {
	t.Helper()
	o := sample.DefaultOptions()
	o.Temperature = 0
	s, err := sample.New(o, e.Config().Vocab)
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: n, Sampler: s, IgnoreEOG: true}, func(tok engine.Token) bool {
		ids = append(ids, tok.ID)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, res.FurtherDrafted
}

// budget is a share of the model for all GPUs together, and for each what computing takes there at most.
func budget(t *testing.T, m *Machine, b modelcost.Cost, stream int, share float64) int64 {
	t.Helper()
	s, err := With(m, b, Options{GPUs: GPUs{VRAM: []int64{1 << 30}, StreamTokens: &stream}}).Solve()
	if err != nil {
		t.Fatal(err)
	}
	return s.Most[0] + int64(share*float64(b.Model.Bytes()))/int64(len(m.gpus))
}

// TestForesight: once usual steps were rehearsed for a GPU's twin, no request of usual length waits for a shader, alone
// or together with others.
func TestForesight(t *testing.T) {
	testenv.Thorough(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Limits: engine.Limits{Context: 256, Sequences: 3}, Neurons: engine.Neurons{Sparse: model.Predict}}
	b, err := modelcost.Of(f, modelcost.Options{Context: o.Context, UBatch: o.LargestStep(), Outputs: o.Sequences, Neurons: model.Neurons{Sparse: o.Sparse}, Law: modelcost.UsualLaw()})
	if err != nil {
		t.Fatal(err)
	}
	stream := 0
	var mu sync.Mutex
	var compiled, known int
	p := With(lavapipes(t, 1), b, Options{
		Processor: Processor{Threads: 1}, GPUs: GPUs{StreamTokens: &stream}, Compiling: func(_ string, done, total int) {
			mu.Lock()
			defer mu.Unlock()
			compiled, known = max(compiled, done), max(known, total)
		},
	})
	o.Devices = p
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	m, err := rehearsed(&b, plan, []*vulkan.Device{p.gpus[0].Foresight()})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range m.UsualSteps() {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	ids := e.Tokenizer().Encode(strings.Repeat("the quick brown fox jumps over a lazy dog ", 2), true, true)
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() { greedy(t, e, ids[i:min(len(ids), 11*i+3)], 3) })
	}
	group.Wait()
	if n := p.gpus[0].Unforeseen(); n > 0 {
		t.Errorf("%d shaders were not foreseen", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if compiled == 0 || compiled > known {
		t.Errorf("%d of %d shaders were told of", compiled, known)
	}
}
