package planner

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// resident returns how many MiB of the process are in RAM; 0 where the system does not say.
func resident() (mib int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	var kib int
	fmt.Fscanf(bytes.NewReader(rest), "%d", &kib)
	return kib >> 10
}

// greedy is the likeliest continuation of prompt, of at most n tokens.
func greedy(t *testing.T, e *engine.Engine, prompt []int32, n int) (out []int32) {
	t.Helper()
	o := sample.DefaultOptions()
	o.Temperature = 0
	s, err := sample.New(o, e.Config().Vocab)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: n, Sampler: s}, func(token engine.Token) bool {
		out = append(out, token.ID)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// leak is by how many MiB a process may grow from the 200th token to the 1000th: the Go heap breathes.
const leak = 16

// TestThousandTokens: a thousand tokens at every budget leak no byte, neither in video memory nor in RAM, and cause no
// message of the validation layer. It takes minutes, so it runs only if POWERINFER_SOAK is set.
func TestThousandTokens(t *testing.T) {
	if os.Getenv("POWERINFER_SOAK") == "" {
		t.Skip("POWERINFER_SOAK is not set")
	}
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []model.SparseMode{model.Exact, model.Predict} {
		o := engine.Options{Limits: engine.Limits{Context: 1100}, Neurons: engine.Neurons{Sparse: mode}}
		b, err := modelcost.Of(f, modelcost.Options{Context: o.Context, Neurons: model.Neurons{Sparse: mode}, Law: modelcost.UsualLaw()})
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range []int64{0, 25, 50, 75, 100} {
			m := lavapipes(t, 1)
			p := With(m, b, Options{Processor: Processor{Threads: 2}, GPUs: GPUs{VRAM: []int64{budget(t, m, b, 0, float64(percent)/100)}}})
			plan, err := p.Solve()
			if err != nil {
				t.Fatal(err)
			}
			hot := 0
			for _, y := range plan.Plan.Layers {
				hot += y.Bound
			}
			o.Devices = p
			e, err := engine.Open(t.Context(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			before := p.Usage()[0]
			ids := greedy(t, e, e.Tokenizer().Encode("Once upon a time there was a king", true, true), 200)
			runtime.GC()
			early := resident()
			more := greedy(t, e, slices.Concat(e.Tokenizer().Encode("Once upon a time there was a king", true, true), ids), 800)
			runtime.GC()
			late := resident()
			after := p.Usage()[0]
			t.Logf("%s, %d %%: %.0f %% of the neurons; video memory %.2f MiB planned, %.2f in use, %.2f after %d tokens; RSS %d MiB after %d tokens, %d in the end",
				mode, percent, 100*float64(hot)/float64(b.Layers*b.FF), float64(before.Planned)/(1<<20), float64(before.Used)/(1<<20), float64(after.Used)/(1<<20),
				len(ids)+len(more), early, len(ids), late)
			if after.Used != before.Used || late > early+leak {
				t.Errorf("%s, %d %%: video memory %d to %d bytes, RSS %d to %d MiB", mode, percent, before.Used, after.Used, early, late)
			}
			e.Close()
		}
	}
}
