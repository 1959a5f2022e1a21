package arch

import (
	"cmp"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Sizes are the hyperparameters that tensors' shapes follow from; those of heads and neurons are one layer's.
type Sizes struct {
	Embd, Vocab    int
	Positions      int // learned
	Types          int // of tokens
	FF             int
	Heads, KVHeads int
	Key, Value     int // elements of a head's key and of its value
	Latent         int // width of the latent vector of keys and values, in latent attention
	QueryLatent    int // width of that of queries
	Rotated        int // rotated elements of a head there
	Layers         int
	Input          int // width of a layer's own embedding of a token
	LowRank        int // of what is added to attention
	Experts        int
	ExpertFF       int  // neurons of an expert
	SharedFF       int  // neurons of the shared experts, together
	ExpertLatent   int  // width of what experts read and write; 0: that of the residual
	ElementGate    bool // attention's gate has a number for each element, where the family's has one for each head

	IndexHeads, IndexKey int // of an indexer: its heads, and their elements

	StateSpace  // of recurrent layers
	Gated       Gated
	Connections // of the residual's streams
}

// StateSpace are the sizes of recurrent layers.
type StateSpace struct {
	Inner      int // width of what the state is written with and read as: heads times their size
	StateSize  int // columns of a head's state
	StateHeads int
	Groups     int   // of heads that share how the state is written and read
	Taps       int   // positions that the convolution sees
	Ranks      Ranks // of RWKV
}

// Channels returns what is convolved.
func (s StateSpace) Channels() int { return s.Inner + 2*s.Groups*s.StateSize }

// Shape returns the shape of a tensor of the family, outermost dimension first, by its name in GGUF; in blocks after
// "blk.N.". It is empty for a name that no family has.
func (f *Family) Shape(name string, s Sizes) []int {
	stem, kind := name, ""
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		stem, kind = name[:at], name[at+1:]
	}
	if kind == "scale" {
		return map[string][]int{"ffn_gate_inp": {s.Embd}, "ffn_down_exps": {s.Experts}}[stem]
	}
	if stem == "xielu" {
		return []int{s.Layers}
	}
	if f.GatedStreams {
		if shape := gatedShape(stem, s); shape != nil {
			return shape
		}
	}
	shape := f.weight(stem, s)
	if f.Selective() && strings.HasPrefix(stem, "ssm_") {
		shape = selectiveShape(stem, s)
	}
	if shape == nil {
		shape = timeMixShape(stem, s)
	}
	if kind == "bias" {
		if stem == "ffn_down_t" {
			return []int{s.Embd}
		}
		if strings.HasSuffix(stem, "_exps") {
			return shape[:min(2, len(shape))]
		}
		return shape[:min(1, len(shape))]
	}
	return shape
}

func (f *Family) weight(stem string, s Sizes) []int {
	q, k, v, read := s.Heads*s.Key, s.KVHeads*s.Key, s.KVHeads*s.Value, s.Heads*s.Value
	if s.KVHeads == 0 && f.DeltaAttention() { // in place of attention
		q, k, v, read = s.Inner, s.Inner, s.Inner, s.Inner
	}
	if streams, mixes := f.connected(); streams && (mixes || strings.Contains(stem, "hc_")) {
		if shape := s.Connections.shape(stem, s, mixes); shape != nil {
			return shape
		}
	}
	if f.DeltaAttention() {
		if shape := f.deltaShape(stem, s); shape != nil {
			return shape
		}
	}
	switch stem {
	case "token_embd", "output":
		return []int{s.Vocab, s.Embd}
	case "position_embd":
		return []int{s.Positions + f.LearnedOffset, s.Embd}
	case "attn_kv_a_mqa":
		return []int{s.Latent + s.Rotated, s.Embd}
	case "attn_kv_a_norm":
		return []int{s.Latent}
	case "attn_kv_b":
		return []int{s.Heads * (s.Key - s.Rotated + s.Value), s.Latent}
	case "attn_k_b":
		return []int{s.Heads, s.Latent, s.Key - s.Rotated}
	case "attn_v_b":
		return []int{s.Heads, s.Value, s.Latent}
	case "attn_q_a":
		return []int{s.QueryLatent, s.Embd}
	case "attn_q_a_norm":
		return []int{s.QueryLatent}
	case "attn_q_b":
		return []int{q, s.QueryLatent}
	case "indexer.attn_q_b":
		return []int{s.IndexHeads * s.IndexKey, s.QueryLatent}
	case "indexer.q_proj":
		return []int{s.IndexHeads * s.IndexKey, s.Embd}
	case "indexer.attn_k", "indexer.k_proj":
		return []int{s.IndexKey, s.Embd}
	case "indexer.q_norm", "indexer.k_norm":
		return []int{s.IndexKey}
	case "indexer.proj":
		return []int{s.IndexHeads, s.Embd}
	case "token_types":
		return []int{s.Types, s.Embd}
	case "token_embd_norm", "attn_output_norm", "layer_output_norm", "output_norm", "attn_norm", "attn_norm_2", "ffn_norm", "post_attention_norm", "post_ffw_norm",
		"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2":
		if stem == "attn_norm_2" && f.Lightning() {
			return []int{s.Inner}
		}
		return []int{s.Embd}
	case "ssm_in":
		return []int{s.Inner + s.Channels() + s.StateHeads, s.Embd}
	case "ssm_conv1d":
		return []int{s.Channels(), s.Taps}
	case "shortconv.in_proj":
		return []int{3 * s.Channels(), s.Embd}
	case "shortconv.conv":
		return []int{s.Channels(), s.Taps}
	case "shortconv.out_proj":
		return []int{s.Embd, s.Channels()}
	case "ssm_dt":
		return []int{s.StateHeads}
	case "ssm_ba":
		return []int{2 * s.StateHeads, s.Embd}
	case "ssm_alpha", "ssm_beta":
		return []int{s.StateHeads, s.Embd}
	case "attn_gate":
		if f.Delta {
			return []int{s.Inner, s.Embd}
		}
		if f.HeadGate && !s.ElementGate {
			return []int{s.Heads, s.Embd}
		}
		return []int{s.Heads * s.Value, s.Embd}
	case "ssm_a", "ssm_d":
		if f.Delta {
			return []int{s.StateHeads}
		}
		return []int{s.StateHeads, 1}
	case "ssm_norm":
		if f.Delta {
			return []int{s.Inner / max(1, s.StateHeads)}
		}
		return []int{s.Groups, s.Inner / max(1, s.Groups)}
	case "ssm_out":
		return []int{s.Embd, s.Inner}
	case "attn_sinks":
		return []int{s.Heads}
	case "attn_q":
		if f.GatedAttention {
			q *= 2
		}
		return []int{q, s.Embd}
	case "attn_k":
		return []int{k, s.Embd}
	case "attn_v":
		return []int{v, s.Embd}
	case "attn_qkv":
		switch {
		case f.Delta:
			return []int{s.Channels(), s.Embd}
		case f.Lightning() && s.KVHeads == 0:
			return []int{3 * q, s.Embd}
		}
		return []int{q + k + v, s.Embd}
	case "attn_q_norm":
		if f.HeadNorms {
			return []int{s.Heads, s.Key}
		}
		if f.WideNorm {
			return []int{q}
		}
		return []int{s.Key}
	case "attn_k_norm":
		if f.Latent { // of what heads share
			return []int{s.Rotated}
		}
		if f.HeadNorms {
			return []int{s.KVHeads, s.Key}
		}
		if f.WideNorm {
			return []int{k}
		}
		return []int{s.Key}
	case "attn_sub_norm":
		return []int{s.Heads * s.Value}
	case "ffn_sub_norm":
		return []int{s.FF}
	case "attn_output":
		return []int{s.Embd, read}
	case "ffn_up":
		if f.FusedGate {
			return []int{2 * s.FF, s.Embd}
		}
		return []int{s.FF, s.Embd}
	case "ffn_gate_inp":
		return []int{s.Experts, s.Embd}
	case "exp_probs_b":
		return []int{s.Experts}
	case "ffn_gate_inp_shexp":
		return []int{s.Embd}
	case "ffn_latent_down":
		return []int{s.ExpertLatent, s.Embd}
	case "ffn_latent_up":
		return []int{s.Embd, s.ExpertLatent}
	case "ffn_gate_exps", "ffn_up_exps":
		return []int{s.Experts, s.ExpertFF, cmp.Or(s.ExpertLatent, s.Embd)}
	case "ffn_down_exps":
		return []int{s.Experts, cmp.Or(s.ExpertLatent, s.Embd), s.ExpertFF}
	case "ffn_gate_chexps", "ffn_up_chexps": // of two experts each
		return []int{s.Experts / 2, s.ExpertFF, s.Embd}
	case "ffn_down_chexps":
		return []int{s.Experts / 2, s.Embd, s.ExpertFF}
	case "ffn_gate_shexp", "ffn_up_shexp":
		if f.FusedShared {
			return []int{2 * s.SharedFF, s.Embd}
		}
		return []int{s.SharedFF, s.Embd}
	case "ffn_down_shexp":
		return []int{s.Embd, s.SharedFF}
	case "per_layer_token_embd":
		return []int{s.Vocab, s.Layers * s.Input}
	case "per_layer_model_proj":
		return []int{s.Layers * s.Input, s.Embd}
	case "per_layer_proj_norm":
		return []int{s.Input}
	case "inp_gate":
		return []int{s.Input, s.Embd}
	case "proj":
		return []int{s.Embd, s.Input}
	case "layer_output_scale":
		return []int{1}
	case "altup_proj", "altup_unembd_proj":
		return []int{compute.AltUpStreams - 1, s.Embd, s.Embd}
	case "altup_router":
		return []int{compute.AltUpStreams, s.Embd}
	case "altup_predict_coef":
		return []int{compute.AltUpStreams * compute.AltUpStreams, compute.AltUpStreams}
	case "altup_correct_coef":
		return []int{compute.AltUpStreams, compute.AltUpStreams}
	case "altup_router_norm", "altup_correct_scale", "laurel_post_norm", "post_norm":
		return []int{s.Embd}
	case "laurel_l":
		return []int{s.LowRank, s.Embd}
	case "laurel_r":
		return []int{s.Embd, s.LowRank}
	case "ffn_gate", "ffn_down_t":
		return []int{s.FF, s.Embd}
	case "ffn_down":
		return []int{s.Embd, s.FF}
	}
	return nil
}
