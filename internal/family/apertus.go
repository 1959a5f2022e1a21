package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newApertus binds Apertus: norms of each head of queries and keys, and feed-forward layers without a gate and with
// xIELU, with learned parameters in each layer.
//
// Sources: Swiss AI Initiative 2025, Apertus; Huang and Schlag 2025 (xIELU).
func newApertus(k *nn.Keys, b *nn.Binder) Program {
	spec := decoderSpec{style: compute.Halves, act: compute.XIELU, ungated: true, outBias: nn.Optional, attention: headNorms}
	if act := k.Activation(spec.act); act.Kind == compute.XIELU {
		n := k.Layers()
		// These keys have no architecture before their names.
		positive, negative, slope, limit := k.RequiredNumbers("xielu.alpha_p", n), k.RequiredNumbers("xielu.alpha_n", n), k.RequiredNumbers("xielu.beta", n), k.RequiredNumbers("xielu.eps", n)
		for l := range n {
			act.Above, act.Below, act.Slope, act.Limit = softplus(positive[l]), slope[l]+softplus(negative[l]), slope[l], limit[l]
			spec.acts = append(spec.acts, act)
		}
	}
	return newDecoder(k, b, spec)
}

// softplus returns ln(1+e^x).
func softplus(x float32) float32 {
	return float32(math.Max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x)))))
}
