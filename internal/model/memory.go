package model

import (
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// InRAM returns how many of n bytes lie in RAM: those of the tensor of f, c's file, that is called name, or of an
// adapter's tensors beside it. places say what lies on GPUs [layers+1]; nil: nothing does.
func (c *Config) InRAM(f *gguf.File, name string, n int64, places []compute.Place) int64 {
	if places == nil {
		return n
	}
	unless := func(gpu bool) int64 {
		if gpu {
			return 0
		}
		return n
	}
	l, inBlock := blockOf(name)
	switch {
	case !inBlock:
		return unless(OfHead(f, name) && places[c.Layers].Attention)
	case l < 0 || l > c.Layers:
		return n // of no layer: loading refuses such a file
	case l == c.Layers:
		return unless(places[l].Further && !StaysInRAM(name))
	}
	_, part, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
	y, b := &places[l], &c.Blocks[l]
	besides := func(units int) int64 { return n - n*int64(min(y.Bound, units))/int64(max(1, units)) }
	switch {
	case OfExpert(part) && y.Slots: // RAM has them all
		return n
	case OfExpert(part):
		return besides(c.Experts.Count)
	case OfPredictor(part):
		return unless(y.Predictor)
	case OfNeuron(part) && !b.Experts:
		return besides(b.FF)
	}
	return unless(y.Attention)
}

// CacheInRAM returns the bytes of a KV cache that lie in RAM, where places say what lies on GPUs; nil: nothing does.
func (c *Config) CacheInRAM(spec compute.CacheSpec, places []compute.Place) (n int64) {
	for part, shape := range spec.Layers {
		if !c.attendsOnGPU(spec.LayerOf(part), places) {
			n += int64(spec.PagesOf(part)) * shape.PageBytes()
		}
	}
	return n
}

// attendsOnGPU reports whether places have layer l's attention on a GPU. l may be the layer behind the last.
func (c *Config) attendsOnGPU(l int, places []compute.Place) bool {
	if l == c.Layers {
		return places != nil && places[l].Further
	}
	return places != nil && places[l].Attention
}

// StaysInRAM reports whether a tensor is the embedding table that a layer which predicts a further token may have to
// itself: it is in RAM always.
func StaysInRAM(name string) bool { return strings.HasSuffix(name, ".nextn.embed_tokens.weight") }

// OfNeuron reports whether a tensor of a block holds a part of each neuron. The name is what follows the layer's
// number.
func OfNeuron(name string) bool {
	switch name {
	case "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "ffn_down_t.weight": // the last is of prepared files
		return true
	}
	return false
}

// OfExpert reports whether a tensor of a block holds a part of each expert.
func OfExpert(name string) bool { return strings.Contains(name, "_exps.") }

// OfPredictor reports whether a tensor of a block is a predictor's.
func OfPredictor(name string) bool {
	return strings.HasPrefix(name, "fc1") || strings.HasPrefix(name, "fc2")
}

// OfHead reports whether a tensor outside of layers lies with the head: it is the output matrix, which may be that of
// the embeddings, or a norm, or computes what layers take beside their inputs.
func OfHead(f *gguf.File, name string) bool {
	if name == "token_embd.weight" {
		return f.Tensor("output.weight") == nil
	}
	return strings.HasPrefix(name, "output") || strings.HasPrefix(name, "altup_") || strings.HasPrefix(name, "per_layer_") && name != "per_layer_token_embd.weight"
}

// ignoreFurther has b leave the tensors of layers that predict further tokens in the file, unless they are bound.
func (c *Config) ignoreFurther(b *nn.Binder) {
	for _, t := range b.File.Tensors {
		if l, ok := blockOf(t.Name); ok && l >= c.Layers && l-c.Layers < c.Further {
			b.Ignore(t.Name)
		}
	}
}

// blockOf returns the layer that a tensor's name begins with.
func blockOf(name string) (l int, ok bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	l, err := strconv.Atoi(number)
	return l, ok && err == nil
}

// Loads reports whether the tensor of c's file called name is loaded: those of layers that predict further tokens are
// where the first of these is asked for and they are its.
func (c *Config) Loads(name string) bool {
	l, ok := blockOf(name)
	return !ok || l < c.Layers || c.FurtherCached && l == c.Layers
}
