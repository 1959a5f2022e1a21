package nn

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Activation reads the activation of feed-forward layers: the user's choice, or else the file's, or else own.
func (k *Keys) Activation(own compute.Nonlinearity) compute.Activation {
	return k.ActivationOr(compute.Activation{Kind: own}, "")
}

// ActivationOr is Activation for families with their own slopes and limits, or with files of the original PowerInfer,
// which do not name the activation: it is then original.
func (k *Keys) ActivationOr(own compute.Activation, original string) compute.Activation {
	act := k.namedActivation(own, original)
	if act.Kind != compute.FATReLU { // for SiLU and GELU a threshold would make small activations zero
		act.Threshold = 0
	}
	return act
}

// Limits reads the limits of activations of each of n layers, which may be one number; 0: there is none.
func (k *Keys) Limits(key string, n int) []float32 {
	out := make([]float32, n)
	v, ok := k.File.Lookup(k.name(key))
	if !ok || reflect.ValueOf(v).Kind() != reflect.Slice {
		limit := float32(k.Within(key, 0, 0, MaxScale))
		for l := range out {
			out[l] = limit
		}
		return out
	}
	list, _, err := k.File.Float32s(k.name(key))
	if err != nil || !k.fits(len(list), n) {
		k.Fail("key %q: it is not a list of a number for each of %d layers", k.name(key), n)
		return out
	}
	for l := range out {
		if out[l] = list[min(l, len(list)-1)]; !(out[l] >= 0 && out[l] <= MaxScale) {
			k.Fail("key %q: %g of layer %d is not a limit up to %g", k.name(key), out[l], l, float64(MaxScale))
		}
	}
	return out
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
	} else if kind != own.Kind.String() {
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

// Limited returns act with a limit for gates and ups, if it is SiLU; 0: there is none.
func Limited(act compute.Activation, limit float32) compute.Activation {
	if limit > 0 && act.Kind == compute.SiLU {
		return compute.Activation{Kind: compute.LimitedSwiGLU, Limit: limit}
	}
	return act
}

// Capped returns act with limits, if it is SiLU; 0: there are none.
func Capped(act compute.Activation, limit float32) compute.Activation {
	if limit > 0 && act.Kind == compute.SiLU {
		act.Kind, act.Limit = compute.CappedSwiGLU, limit
	}
	return act
}
