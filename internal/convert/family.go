package convert

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// family converts the models of one Hugging Face architecture.
type family struct {
	arch string // general.architecture
	// keys completes c with the family's own names and defaults, checks it and returns the hyperparameters.
	keys func(c *config, arch string) ([]gguf.KV, error)
	// plan lists the tensors to write.
	plan func(p *plan, c *config)
	// act is the activation's name where the architecture implies it, else empty.
	act string
	// interleave: q and k rows change from Hugging Face's rotated halves to GGUF llama's rotated neighbours.
	interleave bool
	// qkNorm: every head of q and k is normed.
	qkNorm bool
}

func families() map[string]family {
	llama := family{arch: "llama", keys: llamaKeys, plan: planLlama, interleave: true}
	plain := func(arch string) family { return family{arch: arch, keys: llamaKeys, plan: planLlama} }
	qwen3 := plain("qwen3")
	qwen3.qkNorm = true
	bamboo := plain("bamboo")
	bamboo.act = "drelu"
	bamboo.interleave = true // as the original converter writes it: the engine rotates neighbours
	falcon := family{arch: "falcon", keys: falconKeys, plan: planFalcon}
	return map[string]family{
		"LlamaForCausalLM":       llama,
		"SparseLlamaForCausalLM": llama, // ProSparse
		"MistralForCausalLM":     llama,
		"Qwen2ForCausalLM":       plain("qwen2"),
		"Qwen3ForCausalLM":       qwen3,
		"BambooForCausalLM":      bamboo,
		"FalconForCausalLM":      falcon,
		"RWForCausalLM":          falcon,
		"OPTForCausalLM":         {arch: "opt", keys: optKeys, plan: planOPT},
	}
}

// tensor is one tensor of the output.
type tensor struct {
	name  string
	shape []int   // row length first
	from  *stored // where its elements lie, or nil
	// row gives the source row of an output row; nil is the identity.
	row    func(int) int
	values []float32    // computed elements, where from is nil
	mapped *gguf.Tensor // a GGUF file's elements, where from is nil
	plain  bool         // stays F32 whatever the output type: vectors, learned positions
	head   bool         // the matrix that gives the logits
}

// plan collects the output's tensors and keeps the first error.
type plan struct {
	family  family
	source  *checkpoint
	used    map[string]bool
	tensors []*tensor
	err     error
}

// add plans output tensor name from checkpoint tensor from, whose shape must be dims (outermost first).
func (p *plan) add(name, from string, dims ...int) *tensor {
	t := &tensor{name: name, plain: len(dims) == 1}
	if p.err != nil {
		return t
	}
	s := p.source.tensors[from]
	switch {
	case s == nil:
		p.err = fmt.Errorf("%s: tensor %q is missing", p.source.path, from)
		return t
	case !slices.Equal(s.shape, dims):
		p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v, config.json makes it %v", s.file.path, s.offset, from, s.shape, dims)
		return t
	case !elements()[s.dtype].weights:
		p.err = fmt.Errorf("%s: offset %d: tensor %q has dtype %s; supported are F32, F16, BF16", s.file.path, s.offset, from, s.dtype)
		return t
	}
	p.used[from] = true
	t.from = s
	t.shape = slices.Clone(dims)
	slices.Reverse(t.shape)
	p.tensors = append(p.tensors, t)
	return t
}

// optional is add where the checkpoint holds from, else nil.
func (p *plan) optional(name, from string, dims ...int) *tensor {
	if p.err != nil || p.source.tensors[from] == nil {
		return nil
	}
	return p.add(name, from, dims...)
}

// tie plans the embedding and, where the head is not tied to it, the head.
func (p *plan) tie(c *config, embedding string, tied bool) {
	e := p.add("token_embd.weight", embedding, c.Vocab, c.Hidden)
	if tied {
		// Loaders overwrite a stored head by the embedding.
		p.used["lm_head.weight"] = true
		e.head = true
		return
	}
	p.add("output.weight", "lm_head.weight", c.Vocab, c.Hidden).head = true
}

// finish reports the first error, or tensors that were left over.
func (p *plan) finish() error {
	if p.err != nil {
		return p.err
	}
	return p.source.surplus(p.used)
}

// sizeKeys are the hyperparameters that every family writes.
func (c *config) sizeKeys(arch string) []gguf.KV {
	key := func(s string) string { return arch + "." + s }
	keys := []gguf.KV{
		{Key: key("context_length"), Value: uint32(c.Context)},
		{Key: key("embedding_length"), Value: uint32(c.Hidden)},
		{Key: key("block_count"), Value: uint32(c.Layers)},
		{Key: key("feed_forward_length"), Value: uint32(c.FF)},
		{Key: key("attention.head_count"), Value: uint32(c.Heads)},
		{Key: key("attention.head_count_kv"), Value: uint32(c.KVHeads)},
		{Key: key("vocab_size"), Value: uint32(c.Vocab)},
	}
	if c.HeadDim*c.Heads != c.Hidden {
		keys = append(keys,
			gguf.KV{Key: key("attention.key_length"), Value: uint32(c.HeadDim)},
			gguf.KV{Key: key("attention.value_length"), Value: uint32(c.HeadDim)})
	}
	return keys
}

// activationKeys tell the engine the nonlinearity, which GGUF files of other tools leave to the architecture.
func activationKeys(kind string, threshold float64) []gguf.KV {
	keys := []gguf.KV{{Key: "powerinfer.activation", Value: kind}}
	if kind == "fatrelu" {
		keys = append(keys, gguf.KV{Key: "powerinfer.activation_threshold", Value: float32(threshold)})
	}
	return keys
}

// eps checks a norm's epsilon.
func (c *config) eps(key string, v, def float64) (float32, error) {
	if v == 0 {
		v = def
	}
	if !(v > 0) || v > 1 {
		return 0, c.errorf(key, "%g is not an epsilon", v)
	}
	return float32(v), nil
}
