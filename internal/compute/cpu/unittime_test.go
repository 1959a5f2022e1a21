package cpu_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// TestTraceOfUnits: a trace shows when experts were read and when steps waited, which is what is counted.
func TestTraceOfUnits(t *testing.T) {
	const embd, n, used, tokens = 256, 24, 4, 8
	l := newExpertLayer(t, quant.Q4_0, embd, 512, n)
	d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: 6 * l.expertBytes() * 7 / 5}))
	log := trace.New()
	d.Trace(log)
	w := l.bind(t, d, false, true)
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	x, out, logits := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, n))
	choice, r := must(d.Choice(tokens, used, n)), testenv.Rand(t)
	for range 4 {
		for i := range d.Data(logits) {
			d.Data(logits)[i] = float32(r.NormFloat64())
		}
		if err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens)}, func(v compute.Verbs) {
			v.Route(choice, logits, nil, nil, compute.Routing{Score: compute.Softmax, Scale: 1})
			v.Experts(out, x, choice, w)
		}); err != nil {
			t.Fatal(err)
		}
	}
	traced(t, d, log)
}

// TestTraceOfWholeLayers is TestTraceOfUnits for neurons that prompts need together.
func TestTraceOfWholeLayers(t *testing.T) {
	const embd, ff, tokens = 256, 256, 20
	l := newNeuronLayers(t, testenv.Rand(t), quant.Q8_0, 2, embd, ff, true, false)
	d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: l.neuronBytes(3) * (ff + 64)}))
	log := trace.New()
	d.Trace(log)
	weights := l.bind(t, d, compute.Activation{Kind: compute.ReLU}, true, true, true)
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	x, out, set := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Set(tokens, ff))
	d.FillSet(set, slices.Repeat([]uint32{math.MaxUint32}, tokens*ff/32), ff/32, 0)
	for range 4 {
		if err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens)}, func(v compute.Verbs) {
			for _, w := range weights {
				v.SparseFFN(out, x, set, w)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	traced(t, d, log)
}

// traced compares what log shows of d's reads with what d counted. It closes d.
func traced(t *testing.T, d *cpu.Device, log *trace.Log) {
	t.Helper()
	use := d.Usage().Units
	if err := d.Close(); err != nil { // no read is under way any more
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := log.Write(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Ph, Name string
			Tid      int
			Ts, Dur  float64
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	rows, sum, end, spans := map[int]any{}, map[any]float64{}, map[any]float64{}, map[any]int{}
	for _, e := range got.TraceEvents {
		row := rows[e.Tid]
		switch {
		case e.Name == "thread_name":
			rows[e.Tid] = e.Args["name"]
		case e.Ph == "X":
			const rounding = 1 // µs
			if e.Ts < end[row]-rounding {
				t.Errorf("%s at %g µs overlaps what ends at %g", e.Name, e.Ts, end[row])
			}
			sum[row], end[row] = sum[row]+e.Dur, e.Ts+e.Dur
			spans[row]++
		}
	}
	if spans["disk"] == 0 || (spans["waiting for the disk"] > 0) != (use.Wait > 0) || use.Busy <= 0 || use.Sum < use.Busy {
		t.Errorf("%v spans; %+v", spans, use)
	}
	if waited := float64(use.Wait.Nanoseconds()) / 1e3; math.Abs(sum["waiting for the disk"]-waited) > 1 {
		t.Errorf("the trace shows %g µs of waiting, and %g are counted", sum["waiting for the disk"], waited)
	}
	if busy := float64(use.Busy.Nanoseconds()) / 1e3; sum["disk"] < busy-1 { // what ended after the last step is not counted yet
		t.Errorf("the trace shows %g µs of reads, and %g are counted", sum["disk"], busy)
	}
}
