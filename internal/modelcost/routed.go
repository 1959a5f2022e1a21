package modelcost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// sizes are the sizes of a model with experts.
type sizes struct {
	Layers, Embd, Vocab          int
	Heads, KVHeads, Key, Value   int
	Rotated, Latent, QueryLatent int // a head's rotated elements; the widths of the latent vectors of keys and values, and of queries
	FF                           int // neurons of layers without experts
	Experts, ExpertFF, SharedFF  int // neurons of an expert, and of the shared ones together
}

// routed is a described model with experts, without a file.
type routed struct {
	name, arch string
	sizes      sizes
	used       int // experts, by a token
	lead       int // layers without experts, the first ones
	groups     int // groups of experts; a token's experts are in groupsUsed of them; 0: no groups
	groupsUsed int
	window     int            // positions that layers with windows see
	optional   []string       // the family's optional tensors that the model has
	more       map[string]any // keys of the family alone
	output     string         // the usual type, as quantize takes it
}

// routedShapes returns published models with experts, by their config.json.
func routedShapes() []routed {
	const mix = "Q4_K_M"
	shared := []string{"ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"}
	return []routed{
		{
			name: "qwen3-30b-a3b", arch: "qwen3moe", used: 8, output: mix,
			sizes: sizes{Layers: 48, Embd: 2048, Vocab: 151936, Heads: 32, KVHeads: 4, Key: 128, Value: 128, Experts: 128, ExpertFF: 768, FF: 6144},
		},
		{
			name: "gpt-oss-120b", arch: "gpt-oss", used: 4, window: 128, output: "MXFP4_MOE",
			sizes:    sizes{Layers: 36, Embd: 2880, Vocab: 201088, Heads: 64, KVHeads: 8, Key: 64, Value: 64, Experts: 128, ExpertFF: 2880, FF: 2880},
			optional: []string{"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"},
		},
		{
			name: "glm-4.5-air", arch: "glm4moe", used: 8, lead: 1, output: mix,
			sizes: sizes{
				Layers: 46, Embd: 4096, Vocab: 151552, Heads: 96, KVHeads: 8, Key: 128, Value: 128, Rotated: 64,
				Experts: 128, ExpertFF: 1408, SharedFF: 1408, FF: 10944,
			},
			optional: append([]string{"attn_q.bias", "attn_k.bias", "attn_v.bias"}, shared...),
		},
		{
			name: "qwen3-235b-a22b", arch: "qwen3moe", used: 8, output: mix,
			sizes: sizes{Layers: 94, Embd: 4096, Vocab: 151936, Heads: 64, KVHeads: 4, Key: 128, Value: 128, Experts: 128, ExpertFF: 1536, FF: 12288},
		},
		{
			name: "deepseek-v3", arch: "deepseek2", used: 8, lead: 3, groups: 8, groupsUsed: 4, output: mix,
			sizes: sizes{
				Layers: 61, Embd: 7168, Vocab: 129280, Heads: 128, KVHeads: 128, Key: 192, Value: 128, Rotated: 64, Latent: 512, QueryLatent: 1536,
				Experts: 256, ExpertFF: 2048, SharedFF: 2048, FF: 18432,
			},
			optional: append([]string{"attn_q_a.weight", "attn_q_a_norm.weight", "attn_q_b.weight", "exp_probs_b.bias"}, shared...),
		},
		{
			name: "deepseek-v4-flash", arch: "deepseek4", used: 6, window: 128, output: "MXFP4_MOE",
			sizes: sizes{
				Layers: 43, Embd: 4096, Vocab: 129280, Heads: 64, KVHeads: 1, Key: 512, Value: 512, Rotated: 64,
				Experts: 256, ExpertFF: 2048, SharedFF: 2048, FF: 2048,
			},
			optional: shared,
			more: map[string]any{
				"attention.q_lora_rank": uint32(1024), "attention.output_lora_rank": uint32(1024), "attention.output_group_count": uint32(8),
				"attention.indexer.head_count": uint32(64), "attention.indexer.key_length": uint32(128), "attention.indexer.top_k": uint32(512),
				"attention.compress_ratios": append([]uint32{0, 0}, append(slices.Repeat([]uint32{4, 128}, 20), 4)...),
				"hash_layer_count":          uint32(3), "hyper_connection.count": uint32(4), "hyper_connection.sinkhorn_iterations": uint32(20),
				"swiglu_clamp_exp": float32(10),
			},
		},
	}
}

// PublishedExperts returns the names of the published models with experts that can be described.
func PublishedExperts() []string {
	var names []string
	for _, r := range routedShapes() {
		names = append(names, r.name)
	}
	return names
}

// Described reads NAME[,KEY=VALUE…], the shape of a known model with some of its keys replaced, and returns its cost. o
// has the context, step and cache.
func Described(text string, o Options) (Cost, error) {
	name, keys, _ := strings.Cut(text, ",")
	for _, r := range routedShapes() {
		if r.name == strings.ToLower(strings.TrimSpace(name)) {
			return r.cost(keys, o)
		}
	}
	s, err := Describe(text)
	if err != nil {
		return Cost{}, err
	}
	s.CacheTypes = o.CacheTypes
	b := s.Cost(o.Context, o.UBatch)
	b.Outputs += o.Drafts
	return b, nil
}

func (r *routed) cost(keys string, o Options) (Cost, error) {
	for item := range strings.SplitSeq(keys, ",") {
		if keys == "" {
			break
		}
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return Cost{}, fmt.Errorf("%.40q in the description is not KEY=VALUE", item)
		}
		if err := r.set(key, value); err != nil {
			return Cost{}, err
		}
	}
	f, err := r.header()
	if err != nil {
		return Cost{}, err
	}
	if o.Law == (Law{}) {
		o.Law = UsualLaw()
	}
	b, err := Of(f, o)
	if err != nil {
		return b, err
	}
	b.Type = r.output
	return b, nil
}

func (r *routed) set(key, value string) error {
	z := &r.sizes
	counts := map[string]struct {
		at *int
		of int
	}{"layers": {&z.Layers, maxLayers}, "experts": {&z.Experts, maxWidth}, "used": {&r.used, maxWidth}, "expert-ff": {&z.ExpertFF, maxWidth}, "vocab": {&z.Vocab, 1 << 24}}
	if key == "type" {
		if strings.EqualFold(value, "mxfp4") { // models in MXFP4 have only their experts in it
			value += "_moe"
		}
		out, err := convert.ParseOutput(value)
		if err != nil {
			return fmt.Errorf("in the description: %w", err)
		}
		r.output = out.String()
		return nil
	}
	c, ok := counts[key]
	if !ok {
		return fmt.Errorf("key %.40q of the description of a model with experts is none of expert-ff, experts, layers, type, used, vocab", key)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > c.of {
		return fmt.Errorf("%s=%.40s in the description is not a number from 1 to %d", key, value, c.of)
	}
	*c.at = n
	r.lead = min(r.lead, z.Layers-1)
	return nil
}

// header returns the header of a file of the shape, in its type.
func (r *routed) header() (*gguf.File, error) {
	z := r.sizes
	h := &header{zeros: make([]byte, 4*max(z.Vocab*r.used, z.Experts*max(z.Embd, z.ExpertFF)))}
	k := &nn.Keys{File: gguf.Describe(r.name, "GGUF", r.keys(), nil), Arch: r.arch}
	b := nn.NewLister(k.File, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }}, r.held)
	family.Open(k, b)
	if err := cmp.Or(k.Err, b.Err); err != nil {
		return nil, err
	}
	for _, t := range b.Listed() {
		h.tensor(t.Name, t.Shape)
	}
	f := gguf.Describe(r.name, "GGUF", k.File.Keys, h.tensors)
	out, err := convert.ParseOutput(r.output)
	if err != nil {
		return nil, err
	}
	choices, err := (&convert.Quantization{Output: out}).Plan(f)
	if err != nil {
		return nil, err
	}
	for _, c := range choices {
		t := f.Tensor(c.Tensor.Name)
		if t.Type = c.Type; t.Data != nil {
			t.Data = h.zeros[:t.Bytes()]
		}
	}
	return f, nil
}

// held returns a tensor that files may lack, if the model has it: see nn.NewLister.
func (r *routed) held(name string) *gguf.Tensor {
	layer, stem := 0, name
	n, _ := fmt.Sscanf(name, "blk.%d.%s", &layer, &stem)
	switch stem {
	case "token_embd.weight":
		return &gguf.Tensor{Shape: []int{r.sizes.Embd, r.sizes.Vocab}}
	case "output.weight", "attn_k_b.weight", "ffn_gate.weight":
		return &gguf.Tensor{}
	case "ffn_gate_inp.weight":
		if layer < r.lead {
			return nil
		}
		return &gguf.Tensor{}
	}
	if n == 2 && slices.Contains(r.optional, stem) {
		return &gguf.Tensor{}
	}
	return nil
}

// keys returns the metadata that models are read by.
func (r *routed) keys() []gguf.KV {
	z := r.sizes
	list := []gguf.KV{{Key: "general.architecture", Value: r.arch}, {Key: "general.name", Value: r.name}}
	set := func(name string, v any) { list = append(list, gguf.KV{Key: r.arch + "." + name, Value: v}) }
	count := func(name string, n int) {
		if n > 0 {
			set(name, uint32(n))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.more)) {
		set(name, r.more[name])
	}
	count("context_length", 1) // the least, for positions are not described
	count("embedding_length", z.Embd)
	count("block_count", z.Layers)
	count("feed_forward_length", z.FF)
	count("attention.head_count", z.Heads)
	set("attention.layer_norm_rms_epsilon", float32(1e-6))
	count("rope.dimension_count", z.Rotated)
	count("expert_count", z.Experts)
	count("expert_used_count", r.used)
	count("expert_feed_forward_length", z.ExpertFF)
	count("leading_dense_block_count", r.lead)
	count("expert_group_count", r.groups)
	count("expert_group_used_count", r.groupsUsed)
	count("attention.sliding_window", r.window)
	if z.SharedFF > 0 {
		count("expert_shared_count", z.SharedFF/z.ExpertFF)
	}
	if z.Latent == 0 {
		count("attention.head_count_kv", z.KVHeads)
		count("attention.key_length", z.Key)
		count("attention.value_length", z.Value)
		return list
	}
	count("attention.head_count_kv", 1) // the cache has one head
	count("attention.kv_lora_rank", z.Latent)
	count("attention.q_lora_rank", z.QueryLatent)
	count("attention.key_length", z.Latent+z.Rotated)
	count("attention.value_length", z.Latent)
	count("attention.key_length_mla", z.Key)
	count("attention.value_length_mla", z.Value)
	return list
}

// tensor adds a tensor, row length first. Matrices are in F16, which quantising replaces; vectors, routers and biases
// are in F32.
func (h *header) tensor(name string, shape []int) {
	t := &gguf.Tensor{Name: name, Type: quant.F16, Shape: shape}
	if len(shape) == 1 || strings.HasSuffix(name, ".bias") || strings.Contains(name, "ffn_gate_inp") {
		t.Type = quant.F32
	}
	if strings.Contains(name, "ffn_gate_tid2eid") { // experts' numbers, by token
		t.Type = quant.I32
	}
	table := t.Type == quant.I32 || strings.HasSuffix(name, "_ape.weight") // that is read while a model is bound
	if table || len(shape) == 1 || strings.HasSuffix(name, ".bias") {
		t.Data = h.zeros[:4*t.Elems()]
	}
	h.tensors = append(h.tensors, t)
}
