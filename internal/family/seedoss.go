package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newSeedOSS binds Seed-OSS: the plain decoder.
func newSeedOSS(k *nn.Keys, b *nn.Binder) Program {
	return newDecoder(k, b, decoderSpec{style: compute.Halves, outBias: nn.Optional, ffnNorm: "post_attention_norm"})
}
