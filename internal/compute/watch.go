package compute

import (
	"strings"
	"time"
)

// A Watch collects what is of interest only while somebody looks at a model's steps. It belongs to the model, whose goroutine writes it during
// steps; its owner reads and switches it between them.
type Watch struct {
	On    bool
	Times Times
}

// Times say how long a processor computed for each part of a model.
type Times [Parts]time.Duration

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

// Watched is a device that adds to a Watch's times, as long as it is on, what the processor computes.
type Watched interface {
	Watch(w *Watch)
}

// PartOf returns the part of a model that an operation belongs to.
func PartOf(op Op) Part {
	switch o := op.(type) {
	case *Attend, *StoreKV, *RoPE, *Temper:
		return PartAttention
	case *Predict:
		return PartPredictor
	case *SparseFFN, *Activate, *GaussianTopK:
		return PartNeurons
	case *MatMul:
		switch name := o.Products[0].W.Name; {
		case strings.Contains(name, ".attn_"):
			return PartAttention
		case strings.Contains(name, ".ffn_"):
			return PartNeurons
		}
		return PartHead
	}
	return PartRest
}

// NeuronBins count how often neurons of a layer were needed: those in a token's set or, where it is all, those whose activation was not zero.
// Neighbours share a count. They belong to the layer, like its NeuronCount; what a GPU computes without a set is not counted.
type NeuronBins struct {
	On      bool     // somebody looks
	Neurons int      // of the layer
	Counts  []uint32 // [bins] they wrap around
}

// Add counts a token's list of neurons, which are numbered from first on.
func (b *NeuronBins) Add(first int, list []int32) {
	for _, n := range list {
		b.Counts[(first+int(n))*len(b.Counts)/b.Neurons]++
	}
}

// AddBits counts the first n neurons of rows tokens: bit i of words[perRow·t+i/32], in ascending order, is neuron i of token t.
func (b *NeuronBins) AddBits(words []uint32, perRow, rows, n int) {
	for t := range rows {
		for i := range n {
			if words[perRow*t+i/32]>>(i%32)&1 != 0 {
				b.Counts[i*len(b.Counts)/b.Neurons]++
			}
		}
	}
}
