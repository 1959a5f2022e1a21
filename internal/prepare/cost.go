package prepare

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// cost holds the bytes that a layer reads for a token.
type cost struct {
	ff, embd  int
	deciding  int64      // a row that must be read to know whether its neuron is active: gate, or up in ungated families
	following int64      // of an active neuron: the rest
	predictor quant.Type // of fc1 and fc2
}

// layerCost reads the types of a layer's tensors.
func layerCost(f *gguf.File, c model.Config, layer int, predictor quant.Type) (cost, error) {
	k := cost{ff: c.FF, embd: c.Embd, predictor: predictor}
	n := c.NeuronRows(f, layer)
	down := f.Tensor(fmt.Sprintf("blk.%d.ffn_down.weight", layer))
	if down == nil { // in a prepared file
		down = f.Tensor(fmt.Sprintf("blk.%d.ffn_down_t.weight", layer))
	}
	for _, t := range []struct {
		name   string
		tensor *gguf.Tensor
		absent bool // rightly
	}{{"ffn_up", n.Up, false}, {"ffn_down", down, false}, {"ffn_gate", n.Gate, !c.Blocks[layer].Gated}} {
		if t.tensor == nil && !t.absent {
			return k, fmt.Errorf("%s: layer %d has no %s", f.Path, layer, t.name)
		}
	}
	share := func(t *gguf.Tensor) int64 { return int64(len(t.Data)) / int64(c.FF) } // of a neuron
	k.deciding = share(n.Deciding())
	k.following = share(down)
	if n.Gate != nil {
		k.following += share(n.Up)
	}
	return k, nil
}

// dense returns the whole layer.
func (k cost) dense() float64 { return float64(k.ff) * float64(k.deciding+k.following) }

// exact reads every deciding row, and the rest of active neurons; active is their share.
func (k cost) exact(active float64) float64 {
	return float64(k.ff) * (float64(k.deciding) + active*float64(k.following))
}

// weights returns a predictor of the given rank for n neurons.
func (k cost) weights(rank, n int) float64 {
	return float64(rank)*float64(k.predictor.RowBytes(k.embd)) + float64(n)*float64(k.predictor.RowBytes(rank))
}

// predict returns a predictor that always computes the first always neurons and finds the given share of the others;
// active is the share of all neurons. Misses are not subtracted: a predictor gains nothing by them.
func (k cost) predict(rank, always int, predicted, active float64) float64 {
	n := k.ff - always
	return k.weights(rank, n) + (float64(always)+predicted*float64(n))*float64(k.deciding) + active*float64(k.ff)*float64(k.following)
}

// alwaysFrom returns the frequency from which on computing a neuron for every token reads less than predicting it: its
// row of fc2 is saved for every token, its deciding row is read in vain for tokens that do not need it. The rank is not
// known yet; an eighth of the width is usual.
func (k cost) alwaysFrom() float64 {
	rank := max(rankStep, k.embd/8/rankStep*rankStep)
	return max(0.5, 1-float64(k.predictor.RowBytes(rank))/float64(k.deciding))
}
