package model

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// turns returns how often a pair that rotates f radians a position turns within n positions.
func turns(f float64, n int) float64 { return float64(n) * f / (2 * math.Pi) }

// TestRopeFrequencies compares the frequencies with the papers' definitions, written over rotations instead of
// logarithms.
func TestRopeFrequencies(t *testing.T) {
	const dims, base, context = 128, 10000.0, 4096
	factors := make([]float32, dims/2)
	for i := range factors {
		factors[i] = 1 + float32(i)/8
	}
	frequency := func(i float64) float64 { return math.Exp(-2 * i / dims * math.Log(base)) }
	plain := func(i int) float64 { return frequency(float64(i)) }
	// edge is the fractional index of the pair that turns n times within the context, by bisection.
	edge := func(n float64) float64 {
		low, high := -1000.0, 1000.0
		for range 200 {
			if mid := (low + high) / 2; turns(frequency(mid), context) > n {
				low = mid
			} else {
				high = mid
			}
		}
		return low
	}
	yarn := nn.RopeSpec{Scaling: "yarn", Factor: 4, Context: context, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	interpolating := yarn
	interpolating.Factor, interpolating.ExtFactor, interpolating.AttnFactor = 2, 0, 1.5
	for _, c := range []struct {
		name    string
		rope    nn.RopeSpec
		factors []float32
		want    func(i int) float64 // radians a position
		scale   float64             // factor of the rotated pair
	}{
		{"plain", nn.RopeSpec{Scaling: "linear", Factor: 1}, nil, plain, 1},
		{"linear", nn.RopeSpec{Scaling: "linear", Factor: 4}, nil, func(i int) float64 { return plain(i) / 4 }, 1},
		{"none", nn.RopeSpec{Scaling: "none", Factor: 4}, nil, plain, 1},
		{"llama3", nn.RopeSpec{Scaling: "linear", Factor: 1}, factors, func(i int) float64 { return plain(i) / float64(factors[i]) }, 1},
		{"yarn", yarn, nil, func(i int) float64 {
			low, high := math.Floor(edge(32)), math.Ceil(edge(1))
			switch x := float64(i); {
			case x <= low: // rotates often: unchanged
				return plain(i)
			case x >= high: // turns seldom: interpolated
				return plain(i) / 4
			default:
				share := (x - low) / (high - low)
				return plain(i)*(1-share) + plain(i)/4*share
			}
		}, 1 + 0.1*math.Log(4)},
		{"yarn, no extrapolation", interpolating, nil, func(i int) float64 { return plain(i) / 2 }, 1.5},
		{"dynamic, within the context", nn.RopeSpec{Scaling: "dynamic", Factor: 2, Context: context, Positions: context}, nil, plain, 1},
		{"dynamic, three contexts", nn.RopeSpec{Scaling: "dynamic", Factor: 2, Context: context, Positions: 3 * context}, nil, func(i int) float64 {
			return math.Pow(base*math.Pow(2*3-1, dims/(dims-2.0)), -2*float64(i)/dims) // the slowest pair turns 2·3-1 times more slowly
		}, 1},
	} {
		c.rope.Dims, c.rope.Base = dims, base
		got, err := c.rope.Rope(c.factors)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Scale-c.scale) > 1e-12 {
			t.Errorf("%s: magnitude %g, want %g", c.name, got.Scale, c.scale)
		}
		for i, f := range got.Freqs {
			if w := c.want(i); math.Abs(f-w) > 1e-12*w {
				t.Fatalf("%s: frequency %d is %g, want %g", c.name, i, f, w)
			}
		}
	}
}

// TestRopeKeys: the effect of a file's keys on the slowest pair. A factor counts under both names, unless the type is
// none.
func TestRopeKeys(t *testing.T) {
	kv := func(key string, v any) gguf.KV { return gguf.KV{Key: "llama.rope." + key, Value: v} }
	for _, c := range []struct {
		name string
		keys []gguf.KV
		want float64 // the factor by which the slowest pair is slowed
	}{
		{"no keys", nil, 1},
		{"factor alone", []gguf.KV{kv("scaling.factor", float32(4))}, 4},
		{"factor's old name", []gguf.KV{kv("scale_linear", float32(2))}, 2},
		{"linear", []gguf.KV{kv("scaling.type", "linear"), kv("scaling.factor", float32(4))}, 4},
		{"none", []gguf.KV{kv("scaling.type", "none"), kv("scaling.factor", float32(4))}, 1},
		{"a factor of 0 is none", []gguf.KV{kv("scaling.factor", float32(0))}, 1},
		{"yarn", []gguf.KV{kv("scaling.type", "yarn"), kv("scaling.factor", float32(4)), kv("scaling.original_context_length", uint32(64))}, 4},
	} {
		path := filepath.Join(t.TempDir(), "rope.gguf")
		s := synth.Spec{Arch: "llama", Layers: 1, Embd: 64, FF: 64, Heads: 2, Type: quant.F16, Seed: 1, Keys: c.keys}
		if err := synth.Write(t.Context(), path, s, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rope, err := ropeOf(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		last := len(rope.Freqs) - 1
		plain := math.Pow(10000, -2*float64(last)/float64(rope.Dims))
		if got := plain / rope.Freqs[last]; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: slowed by %g, want %g", c.name, got, c.want)
		}
	}
}

// TestRopeMagnitude: YaRN's factor on rotated pairs. Hugging Face's attention_factor, under the key of llama.cpp's
// converter, replaces the computed factor; the other key multiplies it.
func TestRopeMagnitude(t *testing.T) {
	usual := 1 + 0.1*math.Log(4)
	for _, c := range []struct {
		keys map[string]string
		want float64
	}{
		{nil, usual},
		{map[string]string{"attn_factor": "1.5"}, 1.5 * usual},
		{map[string]string{"yarn_attn_factor": "1.25"}, 1.25},
		{map[string]string{"yarn_attn_factor": "1.25", "attn_factor": "2"}, 2.5},
		{map[string]string{"yarn_ext_factor": "0"}, 1},
	} {
		f := openSynth(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 64, FF: 64, Heads: 2, Type: quant.F16, Seed: 1, Keys: []gguf.KV{
			{Key: "llama.rope.scaling.type", Value: "yarn"}, {Key: "llama.rope.scaling.factor", Value: float32(4)},
		}})
		for key, v := range c.keys {
			if err := f.Override("llama.rope.scaling."+key, "float", v); err != nil {
				t.Fatal(err)
			}
		}
		rope, err := ropeOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(rope.Scale-c.want) > 1e-9 {
			t.Errorf("%v: magnitude %g, want %g", c.keys, rope.Scale, c.want)
		}
	}
}

// ropeOf returns what a llama file says of its rotation.
func ropeOf(f *gguf.File) (*compute.Rope, error) {
	k := &nn.Keys{File: f, Arch: "llama"}
	spec := k.Rope(nn.RopeSpec{Dims: 32, Trained: k.Context()})
	if k.Err != nil {
		return nil, k.Err
	}
	return spec.Rope(nil)
}
