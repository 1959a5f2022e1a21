package compute

import (
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// A Watch collects what matters only while somebody watches a model's steps. It belongs to the model, and the model's
// goroutine writes it during steps. Its owner reads and switches it between steps.
type Watch struct {
	On   bool
	Work Work

	turns []turn // the CPU's turns next to a GPU in the current run, in order
	at    int    // the first turn that may end after the GPU's last work
}

// Work says how long each part of a model was computed.
type Work struct {
	CPU Times
	GPU Times // of all GPUs, by their own clocks; zero if they have none

	// Together is the time in which the processor and a GPU computed both.
	Together time.Duration
}

// Plus returns w and sign times o.
func (w Work) Plus(o Work, sign time.Duration) Work {
	for i := range Parts {
		w.CPU[i] += sign * o.CPU[i]
		w.GPU[i] += sign * o.GPU[i]
	}
	w.Together += sign * o.Together
	return w
}

// Times say how long was computed for each part of a model.
type Times [Parts]time.Duration

// Sum returns the time of all parts.
func (t *Times) Sum() (d time.Duration) {
	for _, part := range t {
		d += part
	}
	return d
}

// turn is a time, by monotime, in which the processor computed.
type turn struct{ from, to time.Duration }

// Begin forgets the turns of an earlier run. w may be nil, here and below.
func (w *Watch) Begin() {
	if w != nil {
		w.turns, w.at = w.turns[:0], 0
	}
}

// Turn says that the CPU computed next to a GPU from a time of monotime until now.
func (w *Watch) Turn(from time.Duration) {
	if w != nil && w.On {
		w.turns = append(w.turns, turn{from, monotime.Now()})
	}
}

// Ran says that a GPU computed a part between two times of monotime, within the current run and after its earlier work.
func (w *Watch) Ran(part Part, from, to time.Duration) {
	if w == nil || !w.On {
		return
	}
	w.Work.GPU[part] += to - from
	for w.at < len(w.turns) && w.turns[w.at].to <= from {
		w.at++
	}
	for _, t := range w.turns[w.at:] {
		if t.from >= to {
			break
		}
		w.Work.Together += min(to, t.to) - max(from, t.from)
	}
}

// Part is a part of a model.
type Part int

// The parts. What belongs to none, such as norms, is Rest.
const (
	PartAttention Part = iota
	PartPredictor
	PartNeurons // feed-forward layers
	PartHead
	PartRest
	Parts int = iota
)

// PartOf returns the part of a model that an operation belongs to.
func PartOf(op Op) Part {
	switch o := op.(type) {
	case *Attend, *AttendLatent, *AttendBlocks, *Compress, *Select, *StoreKV, *LoadKeys, *RoPE, *Temper, *Convolve, *Scan, *Delta, *WKV:
		return PartAttention
	case *Predict:
		return PartPredictor
	case *SparseFFN, *Activate, *GaussianTopK, *Route, *Experts, *GateRows:
		return PartNeurons
	case *MatMulByHead:
		return PartNamed(o.W.Name)
	case *MatMul:
		if part := PartNamed(o.Products[0].W.Name); part != PartRest {
			return part
		}
		return PartHead
	}
	return PartRest
}

// PartNamed returns the part of a model that a weight belongs to.
func PartNamed(weight string) Part {
	switch {
	case strings.Contains(weight, ".attn"), strings.Contains(weight, ".ssm"), strings.Contains(weight, ".indexer"), strings.Contains(weight, ".time_mix"):
		return PartAttention
	case strings.Contains(weight, ".ffn"), strings.Contains(weight, ".channel_mix"):
		return PartNeurons
	case strings.Contains(weight, ".fc1"), strings.Contains(weight, ".fc2"):
		return PartPredictor
	case strings.HasPrefix(weight, "output") && !strings.Contains(weight, "norm"), strings.HasPrefix(weight, "token_embd"):
		return PartHead
	}
	return PartRest
}

// NeuronBins count how often neurons of a layer were needed: those in a token's set, or those with a non-zero
// activation if the set is all neurons. Neighbours share a count. The bins belong to the layer, like its NeuronCount.
// What a GPU computes without a set is not counted.
type NeuronBins struct {
	On      bool     // somebody watches
	Neurons int      // number of neurons in the layer
	Counts  []uint32 // [bins] they wrap around

	Listing bool    // Add appends to List instead
	List    []int32 // the experts that a step chose, row after row
	Outputs bool    // List's rows are those of Params.Out
}

// Add counts a token's list of neurons, which are numbered from first on.
func (b *NeuronBins) Add(first int, list []int32) {
	if b.Listing {
		b.List = append(b.List, list...)
		return
	}
	for _, n := range list {
		b.Counts[(first+int(n))*len(b.Counts)/b.Neurons]++
	}
}

// AddBits counts the first n neurons of rows tokens: bit i of words[perRow·t+i/32], in ascending order, is neuron i of
// token t.
func (b *NeuronBins) AddBits(words []uint32, perRow, rows, n int) {
	for t := range rows {
		for i := range n {
			if words[perRow*t+i/32]>>(i%32)&1 != 0 {
				b.Counts[i*len(b.Counts)/b.Neurons]++
			}
		}
	}
}
