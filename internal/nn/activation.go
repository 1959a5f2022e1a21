package nn

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Activation reads the activation of feed-forward layers: the user's choice, or else the file's, or else own.
func (k *Keys) Activation(own compute.Nonlinearity) compute.Activation {
	return k.ActivationOr(compute.Activation{Kind: own}, "")
}

// ActivationOr is Activation of families with own slopes and limits, or of which there are files of the original
// PowerInfer, which do not say that they mean original.
func (k *Keys) ActivationOr(own compute.Activation, original string) compute.Activation {
	act := k.namedActivation(own, original)
	if act.Kind != compute.FATReLU { // of SiLU and GELU it would take small activations as zero
		act.Threshold = 0
	}
	return act
}

// namedActivation is ActivationOr, with FATReLU's threshold whatever the activation is.
func (k *Keys) namedActivation(own compute.Activation, original string) compute.Activation {
	name := cmp.Or(k.Act, k.Text("powerinfer.activation", ""), k.Text(".hidden_activation", "")) // the last as encoders' files have it
	if name == "" && k.File.Magic == "PWRI" {
		name = original
	}
	act := own
	act.Threshold = float32(k.Within("powerinfer.activation_threshold", 0.01, -math.MaxFloat32, math.MaxFloat32))
	if name == "" || k.Err != nil {
		return act
	}
	kind, threshold, hasThreshold := strings.Cut(strings.ToLower(name), ":")
	at := slices.IndexFunc(compute.Nonlinearities(), func(n compute.Nonlinearity) bool {
		return n.String() == kind && (!n.Limited() || n == own.Kind) // limits are the family's own
	})
	if at >= 0 {
		act.Kind = compute.Nonlinearities()[at]
	} else {
		k.Fail("activation %q is not supported; supported are silu, gelu, relu, fatrelu[:threshold], drelu, relu2", name)
		return act
	}
	if hasThreshold {
		v, err := strconv.ParseFloat(threshold, 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || act.Kind != compute.FATReLU {
			k.Fail("activation %q: only fatrelu has a threshold, and it is a number", name)
		}
		act.Threshold = float32(v)
	}
	return act
}
