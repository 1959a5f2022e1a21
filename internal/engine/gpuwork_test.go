package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// clockError is the largest ratio of times by a software device's clock and by the CPU's: other programs interrupt the
// threads that take the device's time stamps.
const clockError = 1.05

// TestWorkOnGPU: a GPU's work is known part by part on its own clock, and so is what it and the CPU did together.
// Watching changes no text. Neurons are counted where they are computed. Without a Watch nothing is timed.
func TestWorkOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	const tokens = 12
	o := engine.Options{Limits: engine.Limits{Context: 64, UBatch: 4}, Neurons: engine.Neurons{Sparse: model.Predict}} // recording larger steps takes a GPU seconds
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	hot := c.FF / 2
	e := openGPU(t, f, o, gigabyte(share(c.Layers, hot)))
	prompt := e.Tokenizer().Encode("Once upon a time", true, true)
	want, _ := greedy(t, e.Engine, prompt, tokens)
	before := e.Neurons()
	w := e.Watch()
	got, _ := greedy(t, e.Engine, prompt, tokens)
	a := w.Read()
	w.Close()
	if !slices.Equal(got, want) {
		t.Errorf("%v while somebody watches, %v otherwise", got, want)
	}
	work := a.Single.Work
	for part, name := range map[compute.Part]string{compute.PartAttention: "attention", compute.PartPredictor: "predictors", compute.PartNeurons: "neurons"} {
		if work.GPU[part] <= 0 {
			t.Errorf("the GPU took no time for %s: %+v", name, work)
		}
	}
	busy := work.CPU.Sum() + work.GPU.Sum() - work.Together
	if work.Together < 0 || work.Together > min(work.CPU.Sum()+time.Duration(a.Single.Steps)*time.Millisecond, work.GPU.Sum()) || float64(busy) > clockError*float64(a.Single.Time) {
		t.Errorf("%+v in %v", work, a.Single.Time)
	}
	if work.CPU[compute.PartNeurons] <= 0 {
		t.Errorf("the processor computed half of the neurons in no time: %+v", work)
	}
	for l, now := range e.Neurons() {
		use := now.Since(before[l])
		if use.PredictedRAM <= 0 || use.PredictedRAM >= use.Predicted || use.ActiveRAM >= use.Active {
			t.Errorf("half of the neurons are on the GPU: layer %d counts %+v", l, use)
		}
	}
	greedy(t, e.Engine, prompt, 3)
	if single, _ := e.Spent(); single.Work.Plus(work, -1) != (compute.Work{}) {
		t.Errorf("nobody watched, and %+v was added", single.Work.Plus(work, -1))
	}
}
