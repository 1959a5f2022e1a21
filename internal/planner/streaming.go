package planner

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// What computing with a weight and sending it take on a machine that was described and not measured: per core,
// multiplications and additions of a prompt's products a second, and bytes packed for the GPU a second. A chunk of rows
// is long enough for the bus's full speed, and a small share of the budget.
const (
	coreProducts   = 60e9
	corePacks      = 2e9
	largestChunk   = 32 << 20
	budgetOfChunks = 256
)

// streaming returns when sending cold neurons to GPU j takes less time than computing with them on the machine's cores.
// Where nothing is known of the GPU they are sent only if the user says so: asked is from how many tokens on.
func (m *Machine) streaming(j int, asked *int, b *modelcost.Cost, budget int64) hybrid.Streaming {
	s := hybrid.Streaming{Bytes: min(largestChunk, budget/budgetOfChunks)}
	if asked != nil {
		s.Tokens = max(0, *asked)
		s.Experts = s.Tokens
		return s
	}
	k := m.gpus[j].known
	if k == nil || !(k.Upload > 0) {
		return s
	}
	products, packs := m.figures.Products, m.figures.Packs
	if products == 0 || packs == 0 {
		products, packs = coreProducts*float64(m.figures.Cores), corePacks*float64(m.figures.Cores)
	}
	file := float64(b.RowBytes)
	sent := file // bytes of a row on the bus
	if t, ok := quant.Named(b.Type, quant.Types()); ok {
		sent = float64(vulkan.RowBytes(t, b.RowElems))
	}
	w := sending{pack: file / packs, copy: sent / k.Upload, both: (2*file + sent) / m.figures.Best().Stream}
	tokens := func(experts bool) float64 {
		seconds := w.seconds(layerBytes(b, experts) * sent / file / float64(s.Bytes))
		return seconds / float64(b.RowElems) * products
	}
	s.Tokens = int(math.Ceil(tokens(false)))
	s.Experts = int(math.Ceil(tokens(true) * expertsPerUse(b)))
	return s
}

// sending holds what a row takes on its way to a GPU, in seconds.
type sending struct {
	pack float64 // of the cores, which pack it
	copy float64 // of the bus
	both float64 // of RAM, if one row is packed while another is copied: packing reads and writes it, the copy reads it again
}

// seconds returns the time that each row takes of a layer that is sent in so many chunks. While one chunk is copied the
// cores pack the next one, whether or not copies have a queue of their own, so the slowest of cores, bus and RAM
// decides. Packing the first chunk and copying the last one overlap with nothing. The time of the GPU's products is
// left out: they run beside the copies, or are short compared with them.
func (w sending) seconds(chunks float64) float64 {
	if !(chunks > 1) || math.IsInf(chunks, 1) {
		return w.pack + w.copy
	}
	alone := 1 / chunks
	return alone*(w.pack+w.copy) + (1-alone)*max(w.pack, w.copy, w.both)
}

// layerBytes returns the bytes, in the file, of the neurons of the first layer that has neurons, or of the experts of
// the first that has experts; 0 if there is none. The plan, which is made later, may leave fewer of them in RAM, and so
// fewer chunks. Such layers take less time, so a number that is right for whole layers costs least.
func layerBytes(b *modelcost.Cost, experts bool) float64 {
	for l := range b.Model.Layers {
		if y := &b.Model.Layers[l]; y.Experts == experts {
			return float64(len(y.Units.Sometimes)) * float64(y.Units.Size)
		}
	}
	return 0
}

// expertsPerUse returns how many experts a layer has for each that a token uses: so many times as many tokens read a
// weight before sending it pays.
func expertsPerUse(b *modelcost.Cost) float64 {
	for l := range b.Model.Layers {
		if y := &b.Model.Layers[l]; y.Experts {
			return float64(len(y.Units.Sometimes)) / float64(b.ExpertsUsed)
		}
	}
	return 1
}
