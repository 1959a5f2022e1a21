package engine_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// two are two GPUs of 1 GiB.
func two(places []compute.Place, s hybrid.Streaming) planner.Plan {
	return planner.Plan{GPUs: slices.Repeat([]planner.GPU{{Budget: 1 << 30, Stream: s}}, 2), Places: places}
}

// cut puts the layers from the border on, and the head, on the second GPU.
func cut(places []compute.Place, border int) []compute.Place {
	for l := border; l < len(places); l++ {
		places[l].Tier = 1
	}
	return places
}

// TestTwoGPUs: a model split between two GPUs gives the results of the CPU and of one GPU. Each split gives the same
// bytes again, for one token and for many.
func TestTwoGPUs(t *testing.T) {
	testenv.Thorough(t)
	const layers = 3
	for _, c := range testenv.Some(t, 1, []split{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, floatSplits},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, quantSplits},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Exact, floatSplits},
	}) {
		t.Run(c.spec.Arch+" "+c.mode.String()+" "+c.spec.Type.String(), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, layers)
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, Sequences: 32}, Neurons: engine.Neurons{Sparse: c.mode}}
			plain, err := engine.Open(t.Context(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			ids := plain.Tokenizer().Encode("the quick brown fox jumps", true, true)
			want := mean(surprises(t, plain, ids))
			uneven := cut(share(layers, 320), 2)
			uneven[1] = compute.Place{Split: compute.Split{Tier: compute.RAM}}
			uneven[2].Attention = false
			for name, places := range map[string][]compute.Place{
				"split":  cut(share(layers, 320), 1),
				"whole":  cut(share(layers, 1024), 2),
				"head":   cut(share(layers, 320), layers),
				"uneven": uneven,
			} {
				if (name == "whole" || name == "head") && c.mode != model.Predict {
					continue // every mode moves the same data from one GPU to the other
				}
				plan := two(places, hybrid.Streaming{})
				if name == "split" {
					plan = two(places, hybrid.Streaming{Tokens: 9, Bytes: 300 << 10})
				}
				e := openGPU(t, f, o, plan)
				first := surprises(t, e.Engine, ids)
				if got := mean(first); math.Abs(got-want) > c.diff*want {
					t.Errorf("%s: the mean surprise is %.5f, not %.5f", name, got, want)
				}
				if again := surprises(t, e.Engine, ids); !slices.Equal(again, first) {
					t.Errorf("%s: another run gives other bytes", name)
				}
				e.Close()
			}
		})
	}
}

// TestDemoOnTwoGPUs: the demo chooses the same tokens as on the processor, wherever the border between two GPUs is.
func TestDemoOnTwoGPUs(t *testing.T) {
	testenv.Thorough(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, Sequences: 64}, Neurons: engine.Neurons{Sparse: model.Exact}}
	plain, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	prompt := plain.Tokenizer().Encode("Once upon a time there was a king", true, true)
	text, _ := greedy(t, plain, prompt, 64)
	text = slices.Concat(prompt, text)
	choices := likeliest(t, plain, text)
	c := plain.Config()
	for _, border := range testenv.Some(t, 1, []int{c.Layers / 2, c.Layers}) {
		e := openGPU(t, f, o, two(cut(share(c.Layers, c.FF/4), border), hybrid.Streaming{}))
		for i, got := range likeliest(t, e.Engine, text) {
			if want := choices[i]; got.id != want.id && want.gap > closeCall*want.largest {
				t.Errorf("from layer %d on the second GPU token %d of the text is %d, not %d", border, i, got.id, want.id)
			}
		}
		e.Close()
	}
}

// TestTraceOfTwo: a token takes one submission and one wait per layer, and one of each where it leaves a GPU.
func TestTraceOfTwo(t *testing.T) {
	testenv.Thorough(t)
	const layers = 4
	log := trace.New()
	e := openGPU(t, synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, layers),
		engine.Options{Limits: engine.Limits{Context: 64}, Trace: log}, two(cut(share(layers, 320), 2), hybrid.Streaming{}))
	greedy(t, e.Engine, []int32{1, 40, 300}, 4)
	count := within(t, log)
	if count["submit"] != layers+2 || count["wait"] != layers+2 {
		t.Errorf("within a token: %v", count)
	}
}

// within counts the events of the log's last token, by name.
func within(t *testing.T, log *trace.Log) map[string]int {
	t.Helper()
	var text strings.Builder
	if err := log.Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Ph, Name string
			Ts, Dur  float64
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	var from, to float64
	for _, ev := range got.TraceEvents {
		if ev.Name == "token" {
			from, to = ev.Ts, ev.Ts+ev.Dur
		}
	}
	count := map[string]int{}
	for _, ev := range got.TraceEvents {
		if ev.Ph == "X" && ev.Ts >= from && ev.Ts+ev.Dur <= to {
			count[ev.Name]++
		}
	}
	return count
}
