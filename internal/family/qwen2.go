package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newQwen2 binds Qwen 2 and 2.5, and the text part of Qwen2-VL and Qwen2.5-VL: the plain decoder with biases of
// queries, keys and values.
func newQwen2(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Halves, qkvBias: nn.Required, outBias: nn.Optional})
}

// newQwen2MoE binds Qwen 1.5's and 2's models with experts: the plain decoder with experts, biases of queries, keys and
// values, and a shared expert that a sigmoid weighs.
func newQwen2MoE(k *nn.Keys, b *nn.Binder) Program {
	s := readSizes(k)
	return newMoE(k, b, moeSpec{
		style: compute.Halves, qkvBias: nn.Required, outBias: nn.Optional,
		experts: nn.ExpertSpec{
			Gate:    true,
			Neurons: max(1, s.ff()/k.Same(".expert_used_count", 0, nn.MaxExperts)), // for files that say the neurons of a token's experts together
			Shared:  s.ff(),                                                        // for files that do not say it
		},
	})
}
