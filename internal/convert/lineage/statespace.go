package lineage

import "strings"

// Part is a part of a block.
type Part int

// The parts.
const (
	Recurrent Part = 1 << iota
	Attention
	FeedForward
)

// PartOf returns the part of a block that a tensor belongs to, by its name in GGUF after "blk.N."; 0: norms belong to
// none.
func (f *Family) PartOf(name string) Part {
	stem, _, _ := strings.Cut(name, ".")
	switch {
	case (f.DeltaAttention() || f.Lightning()) && strings.HasPrefix(stem, "attn_") && stem != "attn_norm" && stem != "attn_res_score":
		return f.ofMixers(stem)
	case stem == "attn_res_score":
		return 0
	case f.Delta && (stem == "attn_qkv" || stem == "attn_gate"):
		return Recurrent
	case strings.HasSuffix(stem, "attn_norm"), strings.HasPrefix(stem, "post_"):
		return 0
	case strings.HasPrefix(stem, "ssm_"), strings.HasPrefix(stem, "time_mix_"), stem == "shortconv":
		return Recurrent
	case strings.HasPrefix(stem, "attn_"), stem == "indexer":
		return Attention
	case strings.HasPrefix(stem, "ffn_"), strings.HasPrefix(stem, "channel_mix_"), strings.HasPrefix(stem, "exp_probs_b"):
		return FeedForward
	}
	return 0
}

// OnlyRecurrent reports whether no layer has attention or a feed-forward layer.
func (f *Family) OnlyRecurrent() bool { return f.AllLayers == Recurrent }

// stateSpaceBlock returns the tensors of recurrent layers; prefix is the mixer's name on Hugging Face.
func stateSpaceBlock(prefix string) []Tensor {
	return []Tensor{
		{Name: "ssm_in.weight", Source: prefix + "in_proj.weight"},
		{Name: "ssm_conv1d.weight", Source: prefix + "conv1d.weight", Change: Taps},
		{Name: "ssm_conv1d.bias", Source: prefix + "conv1d.bias", Optional: true},
		{Name: "ssm_dt.bias", Source: prefix + "dt_bias"},
		{Name: "ssm_a", Source: prefix + "A_log", Change: NegatedExp},
		{Name: "ssm_d", Source: prefix + "D", Change: Column},
		{Name: "ssm_norm.weight", Source: prefix + "norm.weight", Change: Groups},
		{Name: "ssm_out.weight", Source: prefix + "out_proj.weight"},
	}
}

// StateSpace are the sizes of recurrent layers.
type StateSpace struct {
	Inner      int // width of what the state is written with and read as: heads times their size
	StateSize  int // columns of a head's state
	StateHeads int
	Groups     int   // groups of heads that share B and C
	Taps       int   // positions that the convolution sees
	Ranks      Ranks // RWKV's
}

// Channels returns the number of convolved channels.
func (s StateSpace) Channels() int { return s.Inner + 2*s.Groups*s.StateSize }
