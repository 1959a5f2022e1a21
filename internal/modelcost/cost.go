// Package modelcost states the memory that a model takes and the bytes that it reads for a token, layer by layer, for
// placement to plan with. It finds them from a file's header and statistics, or from a description. It reads no
// weights.
package modelcost

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Cost is a model as placement sees it.
type Cost struct {
	Name     string
	Type     string // type of most neurons' rows: Q4_0
	Mode     model.SparseMode
	Context  int // tokens that the KV cache is planned for
	Layers   int
	FF       int     // neurons of the widest layer
	RowBytes int     // bytes of a neuron's row in one matrix
	RowElems int     // n_embd
	Rest     int64   // bytes that no plan for the layers and the head moves out of RAM: embedding tables that are not the head, and the MTP layer
	Active   float64 // share of the neurons, outside of experts, that a token needs
	Model    placement.Model
	Assumed  []string // facts that the file or the description lacks, one sentence each

	ExpertsUsed  int  // experts that a token uses in each layer with experts
	ExpertsKnown bool // the file states how often each is used
	ExpertMode   model.SparseMode

	File       *gguf.File      // the header that a model is bound by; of a file it is the file, which must stay open
	Activation string          // overrides File's
	Step       int             // tokens of the largest step
	Outputs    int             // rows of logits of the largest step
	Further    placement.Layer // the file's MTP layer, if it drafts tokens, with all its weights as Attention: a GPU may have it instead of RAM. Its bytes are 0 elsewhere
	DraftHead  *gguf.File      // drafts in place of the MTP layer; nil: none
	CacheTypes compute.CacheTypes
	Cache      compute.CacheSpec // its pages only
	Adapters   []model.Adapter
}

// Law is the assumption about frequencies that are not known: the share of neurons that are active for a token, and the
// share of the neurons, the hottest, that makes 80 % of the activations.
type Law struct{ Active, Share80 float64 }

// UsualLaw returns 90 % sparsity, as of ReLU-family models, and the skew that the PowerInfer paper reports of a layer
// between OPT-30B's (26 %) and LLaMA-70B's (43 %).
func UsualLaw() Law { return Law{0.10, 0.35} }

// Check refuses numbers that are no shares.
func (w Law) Check() error {
	if !(w.Active >= 0 && w.Active <= 1) || !(w.Share80 > 0 && w.Share80 <= 1) {
		return fmt.Errorf("%g of the neurons active and 80 %% of the activations made by %g of them: both are shares from 0 to 1", w.Active, w.Share80)
	}
	return nil
}

func (w Law) String() string {
	return fmt.Sprintf("a power law with %.1f %% of the neurons active for a token and 80 %% of the activations made by %.0f %% of the neurons", 100*w.Active, 100*w.Share80)
}

// usualPrecision is the share of predicted neurons that are active, for predictors of unknown precision.
const usualPrecision = 0.6

// neurons are one layer's rows in bytes, and how often they are read, as far as known.
type neurons struct {
	gate, up, down int64     // bytes of one neuron; gate is 0 in ungated layers
	frequency      []float32 // [n_ff] hottest first
	alwaysOn       int       // neurons that are computed without asking the predictor; predict only
	precision      float64   // predict only
}

// units returns what placement plans with:
//
//	off      every row is read
//	exact    gate rows (up rows, ungated) are all read, the others of active neurons only
//	predict  gate rows of predicted neurons, the others of active ones; predicted are the always-on ones, and of each other
//	         neuron frequency/precision of the tokens
func (n *neurons) units(mode model.SparseMode) placement.Units {
	u := placement.Units{Size: n.gate + n.up + n.down, Sometimes: make([]float64, len(n.frequency))}
	first, rest := n.gate, n.up+n.down
	if first == 0 {
		first, rest = n.up, n.down
	}
	if mode == model.Predict || mode == model.Exact && n.gate > 0 { // exact reads all rows of a single matrix in any case
		u.Rows = n.gate + n.up
	}
	switch mode {
	case model.Exact:
		u.Always = first
		u.Used = make([]float64, len(n.frequency))
		for i, f := range n.frequency {
			u.Used[i] = float64(f)
			u.Sometimes[i] = float64(f) * float64(rest)
		}
	case model.Predict:
		u.Used = make([]float64, len(n.frequency))
		for i, f := range n.frequency {
			predicted := min(1, float64(f)/n.precision)
			if i < n.alwaysOn {
				predicted = 1
			}
			u.Used[i] = predicted
			u.Sometimes[i] = predicted*float64(first) + float64(f)*float64(rest)
		}
	default:
		u.Always = u.Size
	}
	return u
}

// active returns the mean of the frequencies.
func active(layers [][]float32) float64 {
	var sum, n float64
	for _, y := range layers {
		for _, f := range y {
			sum += float64(f)
		}
		n += float64(len(y))
	}
	return sum / max(n, 1)
}

// slotsExponent says how many of a layer's uses of experts find them on a GPU that follows the text: (slots /
// experts)^slotsExponent of them. The policy of package residency reaches it in the simulator (bench/experts) on 1,500
// tokens of text, half of them about one topic ("mixed"), if nothing is known of the text before. Slots for 9 % of the
// experts serve 22 % of the uses, for 16 % 28 %, for 35 % 46 %, for 63 % 69 %.
const slotsExponent = 0.7

// FollowedUses returns how often each of n slots of a GPU, the fullest first, holds an expert that a token uses. A
// token uses used of n experts, and the slots follow the text.
func FollowedUses(n, used int) []float64 { return followed(n, used, slotsExponent) }

// cacheExponent is slotsExponent for RAM's slots for experts that are on the disk: a cache that loads every expert when
// it is used. It is the mean of the texts of docs/benchmarks/2026-11-cache-simulated.md, which were not seen before.
// Slots for a quarter of the experts serve 57 % of the uses on average (44 to 69 %), for half of them 76 % (68 to 84
// %), for three quarters 89 % (86 to 93 %).
const cacheExponent = 0.4

// CachedUses is FollowedUses of RAM's slots for experts that are on the disk.
func CachedUses(n, used int) []float64 { return followed(n, used, cacheExponent) }

// followed returns each slot's share of uses, so that the first k slots together serve min(k, used·(k/n)^exponent).
func followed(n, used int, exponent float64) []float64 {
	held := func(k int) float64 {
		return min(float64(k), float64(used)*math.Pow(float64(k)/float64(n), exponent))
	}
	uses := make([]float64, n)
	for i := range uses {
		uses[i] = held(i+1) - held(i)
	}
	return uses
}

// Following returns the model for a GPU with slots that follow the text. Uses of experts that a file states stay as
// they are: they hold for any text.
func (b *Cost) Following() placement.Model {
	m := b.Model
	if b.ExpertsKnown {
		return m
	}
	m.Layers = slices.Clone(m.Layers)
	var uses []float64
	for l := range m.Layers {
		y := &m.Layers[l]
		if !y.Experts {
			continue
		}
		y.Units.Follow = true
		n := len(y.Units.Sometimes)
		if len(uses) != n {
			uses = FollowedUses(n, b.ExpertsUsed)
		}
		y.Units.Sometimes = make([]float64, n)
		for i, f := range uses {
			y.Units.Sometimes[i] = f * float64(y.Units.Size)
		}
	}
	return m
}

// kv returns the bytes of one layer's keys and values at context tokens, in whole pages.
func kv(shape compute.KVShape, context int) int64 {
	pages := (context + compute.PagePositions - 1) / compute.PagePositions
	return int64(pages) * shape.PageBytes()
}
