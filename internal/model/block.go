package model

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Block is what a layer consists of.
type Block struct {
	FF         int // neurons of the feed-forward layer; in layers with experts the shared experts' neurons, 0 if no expert is shared
	Experts    bool
	Guessed    bool // an earlier layer can predict its choice of experts
	Heads      int  // attention heads; 0: no attention
	KVHeads    int
	Key, Value int               // elements of a head's key and of its value
	Window     int               // positions that a token attends to; 0: all
	Rotated    int               // elements of a key that are rotated and the same for all heads, in latent attention
	Latent     int               // width of the latent vector of keys and values, in latent attention; else 0
	Query      int               // width of the latent vector of queries there; 0: queries follow from the input
	KV         int               // the layer with the keys and values that this one reads: itself, or an earlier one
	Gated      bool              // the feed-forward layer has gates
	TopK       *float32          // see nn.FFN.TopK
	Whole      bool              // see nn.FFN.Whole
	Stored     []compute.KVShape // its parts of the cache, see nn.Parts
}

// newBlock describes layer l, which consists of p.
func newBlock(l int, p *nn.Parts) Block {
	b := Block{KV: l, Stored: p.Stored, Experts: p.Experts != nil, Guessed: p.Experts != nil && p.Experts.Guessed}
	if a := p.Attention; a != nil {
		b.Heads, b.KVHeads, b.Key, b.Value, b.Window = a.Heads, a.KVHeads, a.Key, a.Value, a.Scores.Window
		if a.Borrows {
			b.KV = a.From
		}
	}
	if a := p.Latent; a != nil {
		b.Heads, b.KVHeads, b.Key, b.Value = a.Heads, a.Heads, a.Key, a.Value
		b.Latent, b.Rotated, b.Query, b.Window = a.Latent, a.Rotated, a.LatentShape.Query, a.Scores.Window
	}
	if a := p.Compressed; a != nil {
		b.Heads, b.KVHeads, b.Key, b.Value, b.Window = a.Heads, a.KVHeads, a.Key, a.Value, a.Scores.Window
	}
	if p.FFN != nil && p.FFN.Bound() {
		b.FF, b.Gated, b.TopK, b.Whole = p.FFN.Neurons(), p.FFN.Gate.Bound(), p.FFN.TopK, p.FFN.Whole()
	}
	return b
}

// main returns the index of the part of the cache with the layer's keys and values, or 0 if there is none.
func (b *Block) main() int {
	return max(0, slices.IndexFunc(b.Stored, func(s compute.KVShape) bool { return s.State == 0 }))
}

// kv returns the shape of the layer's keys and values in the cache, or of its state if it has only that.
func (b *Block) kv() compute.KVShape {
	if len(b.Stored) == 0 {
		return compute.KVShape{}
	}
	return b.Stored[b.main()]
}

// recurrent reports whether the layer keeps states.
func (b *Block) recurrent() bool {
	return slices.ContainsFunc(b.Stored, func(s compute.KVShape) bool { return s.State > 0 })
}

// Recurrent reports whether some layers keep states instead of keys and values.
func (c *Config) Recurrent() bool {
	return slices.ContainsFunc(c.Blocks, func(b Block) bool { return b.recurrent() })
}

// Latent reports whether some layers have latent attention.
func (c *Config) Latent() bool {
	return slices.ContainsFunc(c.Blocks, func(b Block) bool { return b.Latent > 0 })
}
