package model

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// InRAM returns how many of n bytes are in RAM. They belong to the tensor called name of c's file, or to an adapter's
// part for it. places say what is on GPUs [layers+1]; nil: nothing is.
func (c *Config) InRAM(name string, n int64, places []compute.Place) int64 {
	p, bound := c.purposes[name]
	if places == nil || !bound {
		return n
	}
	unless := func(gpu bool) int64 {
		if gpu {
			return 0
		}
		return n
	}
	besides := func(bound, units int) int64 { return n - n*int64(min(bound, units))/int64(max(1, units)) }
	switch {
	case p.Role == nn.InTable:
		return n
	case p.Role == nn.InHead:
		return unless(places[c.Layers].Attention)
	case p.Layer >= c.Layers:
		return unless(places[c.Layers].Further)
	}
	y := &places[p.Layer]
	switch p.Role {
	case nn.OfExperts, nn.PredictsExperts:
		if y.Slots { // RAM has them all
			return n
		}
		return besides(y.Bound, c.Experts.Count)
	case nn.OfPredictor:
		return unless(y.Predictor)
	case nn.OfNeurons:
		return besides(y.Bound, c.Blocks[p.Layer].FF)
	}
	return unless(y.Attention)
}

// HeadTensors returns the tensors of the draft head that is loaded with the model, if there is one.
func (c *Config) HeadTensors() []*gguf.Tensor {
	if c.head == nil || !c.FurtherCached {
		return nil
	}
	return c.head.file.Tensors
}

// HeadInRAM returns how many of the n bytes of tensor t of the draft head are in RAM.
func (c *Config) HeadInRAM(t *gguf.Tensor, n int64, places []compute.Place) int64 {
	if places != nil && places[c.Layers].Further && c.HeadRole(t) != nn.InTable {
		return 0
	}
	return n
}

// HeadRole returns the role of a tensor of the draft head.
func (c *Config) HeadRole(t *gguf.Tensor) nn.Role { return c.head.purposes[t.Name].Role }

// CacheInRAM returns the bytes of a KV cache that are in RAM. places say what is on GPUs; nil: nothing is.
func (c *Config) CacheInRAM(spec compute.CacheSpec, places []compute.Place) (n int64) {
	for part, shape := range spec.Layers {
		if !c.attendsOnGPU(spec.LayerOf(part), places) {
			n += int64(spec.PagesOf(part)) * shape.PageBytes()
		}
	}
	return n
}

// attendsOnGPU reports whether places have layer l's attention on a GPU. l may be the layer after the last, which stands
// for MTP layers.
func (c *Config) attendsOnGPU(l int, places []compute.Place) bool {
	if l == c.Layers {
		return places != nil && places[l].Further
	}
	return places != nil && places[l].Attention
}

// ignoreFurther makes b leave the tensors of MTP layers in the file, unless they are bound.
func (c *Config) ignoreFurther(b *nn.Binder) {
	for l := c.Layers; l < c.Layers+c.Further; l++ {
		prefix := fmt.Sprintf("blk.%d.", l)
		for _, t := range b.File.Tensors {
			if strings.HasPrefix(t.Name, prefix) {
				b.Ignore(t.Name)
			}
		}
	}
}

// Purpose returns the purpose of the tensor called name of c's file. ok reports whether it is loaded. Tensors of MTP
// layers are loaded only if they are asked for.
func (c *Config) Purpose(name string) (p nn.Purpose, ok bool) {
	p, ok = c.purposes[name]
	return p, ok && (p.Layer < c.Layers || c.FurtherCached && c.head == nil)
}

// NeuronRows finds the rows of a layer's neurons in f, c's file.
func (c *Config) NeuronRows(f *gguf.File, layer int) prepared.NeuronRows {
	return prepared.RowsOf(f, layer, c.Blocks[layer].Gated)
}
