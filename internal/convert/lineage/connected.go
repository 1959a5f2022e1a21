package lineage

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Connected holds what config.json says of hyper-connections, and of attention over compressed keys.
type Connected struct {
	ResidualStreams int     `json:"hc_mult"`
	HyperRounds     int     `json:"hc_sinkhorn_iters"`
	HyperEps        float64 `json:"hc_eps"`
	HyperMagnitude  float64 `json:"hc_magnitude"`

	Ratios        []int   `json:"compress_ratios"` // positions of a block of each layer; 0: it has none
	CompressTheta float64 `json:"compress_rope_theta"`
	OutputGroups  int     `json:"o_groups"`
	OutputLow     int     `json:"o_lora_rank"`
	HashLayers    int     `json:"num_hash_layers"`
}

// ShortBlock is the length of blocks that overlap. An indexer chooses among them.
const ShortBlock = 4

// connected reports whether the residual is several streams, and whether these are mixed.
func (f *Family) connected() (streams, mixes bool) {
	_, streams = f.InBlock("hc_attn_fn.weight")
	_, mixes = f.InBlock("attn_compressor_kv.weight")
	return streams, mixes
}

// HyperConnected reports whether the residual is several streams that parts of a block read and write by weights.
func (f *Family) HyperConnected() bool {
	streams, _ := f.connected()
	return streams
}

// Compresses reports whether attention sees compressed keys.
func (f *Family) Compresses() bool {
	_, mixes := f.connected()
	return mixes
}

// hyV4 describes Hy4: latent attention with sinks and gates, with indexers or without, experts, and hyper-connections
// without mixes.
func hyV4() Family {
	f := deepseek32()
	f.Name, f.HuggingFace = "hy_v4", []string{"HYV4ForCausalLM"}
	f.YarnScores, f.Further = false, false
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum, Counted: true}
	const both = "mlp.experts.gate_up_proj"
	f.Block = append(optional(without(f.Block, "*_exps.*"), "indexer.*"),
		Tensor{Name: "ffn_gate_exps.weight", Source: both, Change: FirstHalf},
		Tensor{Name: "ffn_up_exps.weight", Source: both, Change: SecondHalf},
		Tensor{Name: "ffn_down_exps.weight", Source: "mlp.experts.down_proj"},
		Tensor{Name: "attn_sinks.weight", Source: "self_attn.learnable_sink_param"},
		Tensor{Name: "attn_gate.weight", Source: "self_attn.linear_gate.weight"})
	f.Block = append(f.Block, connections("hc_attn_layer.hc_pre.hc_", "hc_mlp_layer.hc_pre.hc_")...)
	f.Outer = append(slices.Clone(f.Outer), lastConnection("hc_head.hc_head_")...)
	f.Read = readHyV4
	return f
}

// connections returns the tensors of a block's two hyper-connections. Their names on Hugging Face begin with attn and
// ffn.
func connections(attn, ffn string) (all []Tensor) {
	for _, part := range []string{"fn", "base", "scale"} {
		all = append(all, Tensor{Name: "hc_attn_" + part + ".weight", Source: attn + part}, Tensor{Name: "hc_ffn_" + part + ".weight", Source: ffn + part})
	}
	return all
}

// lastConnection returns the tensors by which the head reads the streams.
func lastConnection(source string) (all []Tensor) {
	for _, part := range []string{"fn", "base", "scale"} {
		all = append(all, Tensor{Name: "output_hc_" + part + ".weight", Source: source + part})
	}
	return all
}

func readHyV4(c *Config) error {
	c.KVHeads = 0 // configurations give a number that nothing follows from
	c.ExpertGroups = 0
	c.Scoring, c.TopKMethod = "sigmoid", "noaux_tc"
	if c.IndexerTypes != nil {
		if n := len(c.IndexerTypes); n != c.Layers {
			return c.Errorf("indexer_types", "%d kinds of %d layers", n, c.Layers)
		}
		if err := c.readIndexing(); err != nil {
			return err
		}
	}
	if err := c.readConnections(); err != nil {
		return err
	}
	return readDeepSeek2(c)
}

// readConnections checks what config.json says of hyper-connections.
func (c *Config) readConnections() error {
	if c.ResidualStreams < 1 || c.HyperStreams > compute.MostStreams {
		return c.Errorf("hc_mult", "%d streams of the residual are not supported; 1 to %d are", c.ResidualStreams, compute.MostStreams)
	}
	if !(c.HyperEps >= 0 && c.HyperEps <= 1) {
		return c.Errorf("hc_eps", "%g is not an epsilon", c.HyperEps)
	}
	return nil
}

// deepseek4 describes DeepSeek V4: attention with one head of keys, over a window and compressed keys, experts, and
// hyper-connections.
func deepseek4() Family {
	f := llama()
	f.Name, f.HuggingFace = "deepseek4", []string{"DeepseekV4ForCausalLM"}
	f.PartialRotary, f.Window, f.UsualWindow, f.Further, f.Buffers = true, true, 128, false, []string{".ffn.gate.bias_vl"} // the last is of pictures
	f.Root, f.Head = []string{"", "model."}, "head"
	f.Experts = &Experts{Score: compute.RootSoftplus, Normalised: true, MinSum: leastSum, Counted: true}
	f.Outer = append([]Tensor{{Name: "token_embd.weight", Source: "embed.weight"}, {Name: "output_norm.weight", Source: "norm.weight"}}, lastConnection("hc_head_")...)
	const compressor, indexer = "attn.compressor.", "attn.indexer."
	block := []Tensor{
		{Name: "attn_norm.weight", Source: "attn_norm.weight"},
		{Name: "attn_sinks.weight", Source: "attn.attn_sink"},
		{Name: "attn_q_a.weight", Source: "attn.wq_a.weight"},
		{Name: "attn_q_a_norm.weight", Source: "attn.q_norm.weight"},
		{Name: "attn_q_b.weight", Source: "attn.wq_b.weight"},
		{Name: "attn_kv.weight", Source: "attn.wkv.weight"},
		{Name: "attn_kv_a_norm.weight", Source: "attn.kv_norm.weight"},
		{Name: "attn_output_a.weight", Source: "attn.wo_a.weight"},
		{Name: "attn_output_b.weight", Source: "attn.wo_b.weight"},
		{Name: "attn_compressor_kv.weight", Source: compressor + "wkv.weight", Optional: true},
		{Name: "attn_compressor_gate.weight", Source: compressor + "wgate.weight", Optional: true},
		{Name: "attn_compressor_ape.weight", Source: compressor + "ape", Optional: true},
		{Name: "attn_compressor_norm.weight", Source: compressor + "norm.weight", Optional: true},
		{Name: "indexer.attn_q_b.weight", Source: indexer + "wq_b.weight", Optional: true},
		{Name: "indexer.proj.weight", Source: indexer + "weights_proj.weight", Optional: true},
		{Name: "indexer_compressor_kv.weight", Source: indexer + "compressor.wkv.weight", Optional: true},
		{Name: "indexer_compressor_gate.weight", Source: indexer + "compressor.wgate.weight", Optional: true},
		{Name: "indexer_compressor_ape.weight", Source: indexer + "compressor.ape", Optional: true},
		{Name: "indexer_compressor_norm.weight", Source: indexer + "compressor.norm.weight", Optional: true},
		{Name: "ffn_norm.weight", Source: "ffn_norm.weight"},
		{Name: "exp_probs_b.bias", Source: "ffn.gate.bias", Optional: true},
		{Name: "ffn_gate_tid2eid.weight", Source: "ffn.gate.tid2eid", Optional: true, Change: Numbers},
	}
	block = withExperts(block, "ffn.gate.weight", "ffn.experts.%d.w1.weight", "ffn.experts.%d.w3.weight", "ffn.experts.%d.w2.weight")
	const shared = "ffn.shared_experts."
	f.Block = append(block, append(connections("hc_attn_", "hc_ffn_"),
		Tensor{Name: "ffn_gate_shexp.weight", Source: shared + "w1.weight", Optional: true},
		Tensor{Name: "ffn_up_shexp.weight", Source: shared + "w3.weight", Optional: true},
		Tensor{Name: "ffn_down_shexp.weight", Source: shared + "w2.weight", Optional: true})...)
	f.Read = readDeepSeek4
	return f
}

func readDeepSeek4(c *Config) error {
	const most = 1 << 20
	c.refuse(c.Scoring != "" && c.Scoring != "sqrtsoftplus", "scoring_func", "%q is not supported; sqrtsoftplus is", c.Scoring)
	switch {
	case c.QueryLatent < 1 || c.QueryLatent > most:
		return c.Errorf("q_lora_rank", "%d is outside 1…%d", c.QueryLatent, most)
	case c.Turned < 2 || c.Turned%2 != 0 || c.Turned > c.HeadDim:
		return c.Errorf("qk_rope_head_dim", "%d rotated elements do not fit a head of %d", c.Turned, c.HeadDim)
	case c.OutputGroups < 1 || c.Heads%max(1, c.OutputGroups) != 0:
		return c.Errorf("o_groups", "%d heads are not %d groups of as many each", c.Heads, c.OutputGroups)
	case c.OutputLow < 1 || c.OutputLow > most:
		return c.Errorf("o_lora_rank", "%d is outside 1…%d", c.OutputLow, most)
	case len(c.Ratios) < c.Layers:
		return c.Errorf("compress_ratios", "%d numbers for %d layers", len(c.Ratios), c.Layers)
	case c.HashLayers < 0 || c.HashLayers > c.Layers:
		return c.Errorf("num_hash_layers", "%d of %d layers", c.HashLayers, c.Layers)
	}
	if err := c.readConnections(); err != nil {
		return err
	}
	if err := c.readIndexing(); err != nil {
		return err
	}
	c.Absent = func(l int, name string) bool { return name == "exp_probs_b.bias" && l < c.HashLayers } // tokens choose there
	c.KVHeads, c.RotaryDim = 1, c.Turned
	if err := c.routed(); err != nil {
		return err
	}
	c.Mixture.First = 0
	return readLlama(c)
}
