package planner

import (
	"cmp"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// What computing with a weight and sending it take on a machine that was described and not measured: per core,
// multiplications and additions of a prompt's products a second, and bytes packed for the GPU a second. A chunk of rows
// is long enough for the bus's full speed, and a small share of the budget. So is a layer's part of the KV cache; buffers
// may not be larger on some GPUs.
const (
	coreProducts   = 60e9
	corePacks      = 2e9
	largestChunk   = 32 << 20
	budgetOfChunks = 128
	smallChunk     = 8 << 20 // that small budgets give a larger share to, for each chunk costs some time of its own
	smallBudget    = 32
	largestPages   = 2 << 30
	budgetOfPages  = 16
)

// streaming returns when sending weights in RAM to GPU j takes less time than computing with them on the machine's
// cores. Where nothing is known of the GPU they are sent only if the user says so: asked is from how many tokens on.
func (m *Machine) streaming(j int, asked *int, b *modelcost.Cost, budget int64) hybrid.Streaming {
	s := hybrid.Streaming{Bytes: chunk(budget), Pages: min(largestPages, budget/budgetOfPages)}
	if asked != nil {
		s.Tokens = max(0, *asked)
		s.Experts = s.Tokens
		return s
	}
	k := m.gpus[j].known
	if k == nil || !(k.Upload > 0) {
		return s
	}
	products := m.products()
	if k.Products > 0 && k.Products <= products { // the cores are faster however many tokens there are
		return s
	}
	tokens := m.sending(k, b).seconds() / float64(b.RowElems) * products
	s.Tokens = int(math.Ceil(tokens))
	s.Experts = int(math.Ceil(tokens * expertsPerUse(b)))
	return s
}

// products returns how many multiplications and additions a second the cores reach in a prompt's products.
func (m *Machine) products() float64 {
	return cmp.Or(m.figures.Products, coreProducts*float64(m.figures.Cores))
}

// sending returns what a row of b takes on its way to the GPU k.
func (m *Machine) sending(k *measure.GPU, b *modelcost.Cost) sending {
	packs := cmp.Or(k.Packs, m.figures.Packs, corePacks*float64(m.figures.Cores))
	file := float64(b.RowBytes)
	sent := file // bytes of a row on the bus
	if t, ok := quant.Named(b.Type, quant.Types()); ok {
		sent = float64(vulkan.RowBytes(t, b.RowElems))
	}
	return sending{pack: file / packs, copy: sent / k.Upload, both: (2*file + sent) / m.figures.Best().Stream}
}

// chunk returns the bytes of a chunk.
func chunk(budget int64) int64 {
	return max(min(largestChunk, budget/budgetOfChunks), min(smallChunk, budget/smallBudget))
}

// sending holds what a row takes on its way to a GPU, in seconds.
type sending struct {
	pack float64 // seconds of the cores, which pack it
	copy float64 // seconds of the bus
	both float64 // seconds of RAM, if one row is packed while another is copied: packing reads and writes it, the copy reads it again
}

// seconds returns the time that each row takes. While one chunk is copied, the cores pack later ones, also those of the
// next layers, so the slowest of cores, bus and RAM decides. The time of the GPU's products is left out: from that
// number of tokens on it is shorter than that of the cores' products, and the products run during the copies.
func (w sending) seconds() float64 { return max(w.pack, w.copy, w.both) }

// expertsPerUse returns the number of experts of a layer for each expert that a token uses. Sending pays from that many
// times as many tokens on, because each weight serves that much fewer of them.
func expertsPerUse(b *modelcost.Cost) float64 {
	for l := range b.Model.Layers {
		if y := &b.Model.Layers[l]; y.Experts {
			return float64(len(y.Units.Sometimes)) / float64(b.ExpertsUsed)
		}
	}
	return 1
}
