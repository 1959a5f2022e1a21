package convert

import (
	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// stateKeys returns the sizes of recurrent layers.
func (c *config) stateKeys(f arch.Family) (keys []gguf.KV, err error) {
	if !f.StateSpace {
		return nil, nil
	}
	s := &c.StateSpace
	for _, k := range []struct {
		from, to string
		value    int
	}{
		{"conv_kernel", "conv_kernel", s.Taps},
		{"mamba_num_heads", "inner_size", s.Inner},
		{"ssm_state_size", "state_size", s.StateSize},
		{"mamba_num_heads", "time_step_rank", s.StateHeads},
		{"n_groups", "group_count", s.Groups},
	} {
		if k.value < 1 || k.value > maxWidth {
			return nil, c.Errorf(k.from, "%d is outside 1…%d", k.value, maxWidth)
		}
		keys = append(keys, gguf.KV{Key: f.Name + ".ssm." + k.to, Value: uint32(k.value)})
	}
	if s.Inner%s.StateHeads != 0 || s.StateHeads%s.Groups != 0 {
		return nil, c.Errorf("n_groups", "%d elements of %d heads in %d groups are not all alike", s.Inner, s.StateHeads, s.Groups)
	}
	// llama.cpp requires it, for layers that predict further tokens.
	return append(keys, gguf.KV{Key: f.Name + ".attention.layer_norm_epsilon", Value: float32(c.Epsilon.Value)}), nil
}
