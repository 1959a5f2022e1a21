package engine_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// resident is how many MiB of the process are in RAM; 0 where the system does not say.
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

// leak is by how many MiB a process may grow from the 200th token to the 1000th: the Go heap breathes.
const leak = 16

// TestThousandTokens: a thousand tokens at every budget leave no byte behind, neither in video memory nor in RAM, and nothing for the
// validation layer to say. It takes minutes, so it is played where POWERINFER_SOAK is set.
func TestThousandTokens(t *testing.T) {
	if os.Getenv("POWERINFER_SOAK") == "" {
		t.Skip("POWERINFER_SOAK is not set")
	}
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []model.SparseMode{model.Exact, model.Predict} {
		o := engine.Options{Threads: 2, Context: 1100, Sparse: mode}
		b, err := blueprint.Of(f, blueprint.Options{Context: o.Context, Sparse: mode, Law: blueprint.UsualLaw()})
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range []int64{0, 25, 50, 75, 100} {
			budget := b.Buffers + b.Model.Bytes()*percent/100
			on := placement.Machine{Stream: 20e9, Rows: 5e9, GPUs: []placement.GPU{{Read: 500e9, Budget: budget}}}
			plan, err := b.Places(on, nil, placement.Solve)
			if err != nil {
				t.Fatal(err)
			}
			hot := 0
			for _, y := range plan.Layers {
				hot += y.Hot
			}
			o.Plan = &engine.Plan{Cards: []engine.Card{{Budget: budget, Planned: plan.VRAM[0]}}}
			e := openCard(t, f, o, plan.Places())
			before := e.CardUse()[0]
			ids, _ := greedy(t, e, e.Tokenizer().Encode("Once upon a time there was a king", true, true), 200)
			runtime.GC()
			early := resident()
			more, _ := greedy(t, e, slices.Concat(e.Tokenizer().Encode("Once upon a time there was a king", true, true), ids), 800)
			runtime.GC()
			late := resident()
			after := e.CardUse()[0]
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
