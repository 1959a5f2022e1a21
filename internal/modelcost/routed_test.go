package modelcost

import (
	"math"
	"strings"
	"testing"
)

// TestPublishedExperts: described models have as many weights, and read as many per token, as their makers say, in
// billions, without MTP layers.
func TestPublishedExperts(t *testing.T) {
	for name, want := range map[string]struct{ all, active float64 }{
		"qwen3-30b-a3b": {30.5, 3.3}, "gpt-oss-120b": {116.8, 5.1}, "glm-4.5-air": {106, 12}, "qwen3-235b-a22b": {235, 22}, "deepseek-v3": {671, 37},
		"deepseek-v4-flash": {284, 13},
	} {
		b, err := Described(name+",type=f16", Options{Context: 256})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all, read := 0.0, float64(b.Model.Head)
		for _, y := range b.Model.Layers {
			all -= float64(y.KV)
			read += float64(y.Attention) + float64(y.Units.Always)*float64(len(y.Units.Sometimes))
			for _, v := range y.Units.Sometimes {
				read += v
			}
		}
		all += float64(b.Model.Bytes() + b.Rest)
		t.Logf("%s: %.2f %.2f", name, all/2e9, read/2e9)
		if math.Abs(all/2e9/want.all-1) > 0.02 || math.Abs(read/2e9/want.active-1) > 0.1 {
			t.Errorf("%s has %.2f billion weights and reads %.2f for a token, want %.1f and %.1f", name, all/2e9, read/2e9, want.all, want.active)
		}
	}
	b, err := Described("deepseek-v3,layers=4,experts=16", Options{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if y := b.Model.Layers[3]; b.Layers != 4 || !y.Experts || len(y.Units.Sometimes) != 16 || b.Model.Layers[2].Experts || y.KV != 1024*576*2 || b.Type != "Q4_K_M" {
		t.Errorf("%d layers of %s, the last %+v", b.Layers, b.Type, y)
	}
	for text, want := range map[string]string{
		"qwen3-30b-a3b,active=0.1": `key "active" of the description of a model with experts is none of`,
		"qwen3-30b-a3b,layers":     "is not KEY=VALUE",
		"qwen3-30b-a3b,layers=0":   "is not a number from 1 to",
		"qwen3-30b-a3b,type=q9":    `output type "q9" is not supported`,
		"qwen3-30b-a3b,used=300":   "expert_used_count",
		"qwen4":                    "opt-175b, qwen3-30b-a3b, gpt-oss-120b, glm-4.5-air, qwen3-235b-a22b, deepseek-v3, deepseek-v4-flash",
	} {
		if _, err := Described(text, Options{Context: 64}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
