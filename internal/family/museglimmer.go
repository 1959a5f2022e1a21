package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// museAfter is the epsilon of norms after attention and SwiGLUs, which files do not say.
const museAfter = 1e-8

// newMuseGlimmer binds the text part of Muse Glimmer: Trinity's program without experts. Embeddings are normed without
// weights, only layers with windows rotate heads, and logits have a factor before their soft cap.
//
// Source: Meta 2026, the model card and configuration of Muse Glimmer.
func newMuseGlimmer(k *nn.Keys, b *nn.Binder) Program {
	m := readAFMoE(k, b, compute.Interleaved)
	m.rotated, m.after = m.windowed, museAfter
	m.bind(k, b)
	m.embed.Norm = b.UnitNorm(m.embd, m.eps)
	m.output.Scale = k.Factor(".logit_scale", 1)
	return m
}
