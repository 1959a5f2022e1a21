package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newSpark25 binds Spark X2.5: the plain decoder with GeGLU. A gate's sigmoid multiplies what each head reads. Most
// layers have a window, and a rotation of their own.
//
// Source: iFlytek 2026, the configuration and model card of Spark-X2.5-1.7B.
func newSpark25(k *nn.Keys, b *nn.Binder) Program {
	m := readDecoder(k, decoderSpec{style: compute.Halves, act: compute.GELU})
	window, windowed := k.Windows(nn.WindowSpec{}, len(m.layers), m.context)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Trained: m.context})
	local := k.WindowRope(rope, 0)
	local.Dims = k.Count(".rope.dimension_count_swa", rope.Dims, nn.MaxWidth)
	m.rope = b.RopeWith(rope, nil)
	windowRope := b.RopeWith(local, nil)
	m.spec.attention = func(m *decoder, b *nn.Binder, a *nn.Attention, i int) {
		a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Logistic)
		if windowed[i] {
			a.Rope, a.Scores.Window = windowRope, window
		}
	}
	m.bind(k, b)
	return m
}
