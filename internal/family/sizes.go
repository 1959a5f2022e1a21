package family

import "github.com/powerinfer-go/powerinfer/internal/nn"

// sizes are hyperparameters that the files of all decoders have.
type sizes struct {
	embd    int // width of the residual
	layers  []layer
	further []layer // the MTP layers'
	context int     // positions that the model was trained for
}

// layer has the sizes of one layer. In most models they are the same in all.
type layer struct {
	nn.HeadShape
	ff int // neurons of the feed-forward layer
}

// readSizes reads them.
func readSizes(k *nn.Keys) sizes { return readSizesFrom(k, 1) }

// readHybridSizes reads the sizes of a model with layers that may lack attention, marked by no KV heads, and neurons.
func readHybridSizes(k *nn.Keys) sizes { return readSizesFrom(k, 0) }

// readSizesFrom reads the sizes of a model. Every layer must have at least least heads and neurons.
func readSizesFrom(k *nn.Keys, least int32) sizes {
	s := sizes{embd: k.RequiredCount(".embedding_length", nn.MaxWidth), context: k.Context()}
	layers := k.Layers()
	n := layers + k.Extra
	var none func(int) int // the neurons of layers in files that do not say them: they must
	if k.Optional(".expert_count", nn.MaxExperts) > 0 && k.Says(".expert_feed_forward_length") {
		none = func(int) int { return 0 } // all layers may have experts
	}
	ff := k.CountsFrom(least, ".feed_forward_length", n, none)
	heads := k.CountsFrom(least, ".attention.head_count", n, nil)
	kv := k.CountsFrom(least, ".attention.head_count_kv", n, func(l int) int { return heads[l] })
	keys := k.Counts(".attention.key_length", n, func(l int) int { return max(1, s.embd/max(1, heads[l])) })
	values := k.Counts(".attention.value_length", n, func(l int) int { return keys[l] })
	for l := range n {
		each := layer{nn.HeadShape{Heads: heads[l], KVHeads: kv[l], Key: keys[l], Value: values[l]}, ff[l]}
		if kv[l] == 0 {
			each.HeadShape = nn.HeadShape{}
		}
		s.layers = append(s.layers, each)
	}
	if n > layers {
		s.layers, s.further = s.layers[:layers:layers], s.layers[layers:]
	}
	return s
}

// at returns the sizes of layer i, which may be an MTP layer.
func (s *sizes) at(i int) layer {
	if i >= len(s.layers) {
		return s.further[i-len(s.layers)]
	}
	return s.layers[i]
}

// attention returns the number of the last layer with attention; 0: none has any.
func (s *sizes) attention() (at int) {
	for i, l := range s.layers {
		if l.KVHeads > 0 {
			at = i
		}
	}
	return at
}

// key returns the elements of a head's key, in the layer that has most.
func (s *sizes) key() (n int) {
	for _, l := range s.layers {
		n = max(n, l.Key)
	}
	return n
}

// heads returns the heads of the layer that has most.
func (s *sizes) heads() (n int) {
	for _, l := range s.layers {
		n = max(n, l.Heads)
	}
	return n
}

// ff returns the neurons of the layer that has most.
func (s *sizes) ff() (n int) {
	for _, l := range s.layers {
		n = max(n, l.ff)
	}
	return n
}
