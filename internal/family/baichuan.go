package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newBaichuan binds Baichuan 1 and 2: the plain decoder, in which the 13B have ALiBi in place of the rotation. Their
// numbers of layers tell them apart. Files of other depths, which nobody published, have neither, as in llama.cpp.
//
// Source: Yang et al. 2023, Baichuan 2: Open Large-scale Language Models.
func newBaichuan(k *nn.Keys, b *nn.Binder) Program {
	m := readDecoder(k, decoderSpec{})
	m.scores.Alibi = 0
	switch len(m.layers) {
	case 32:
		m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))
	case 40:
		m.scores = k.Scores(nn.Scores{Alibi: 8})
	}
	m.bind(k, b)
	return m
}
