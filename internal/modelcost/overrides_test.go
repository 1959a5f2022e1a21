package modelcost

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// withExperts returns a model of four layers with shared experts.
func withExperts(t *testing.T) *gguf.File {
	t.Helper()
	return synthtest.File(t, synth.Spec{Arch: "glm4moe", Type: quant.F16, Layers: 4, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Experts: 4, Used: 2, Seed: 1})
}

// pin returns a file's cost with overrides, on GPUs called Vulkan0 and Vulkan1.
func pin(t *testing.T, f *gguf.File, texts ...string) (Cost, []string, error) {
	t.Helper()
	b := of(t, f, law())
	list, err := ParseOverrides(texts, []string{"Vulkan0", "Vulkan1"})
	if err != nil {
		return b, nil, err
	}
	unmatched, err := b.Pin(list)
	return b, unmatched, err
}

func TestOverrides(t *testing.T) {
	f := withExperts(t)
	const any, ram, gpu = placement.Anywhere, placement.InRAM, placement.OnGPU
	type pins struct{ attention, units placement.Pin }
	all := [4]pins{{any, ram}, {any, ram}, {any, ram}, {any, ram}}
	for name, c := range map[string]struct {
		texts []string
		want  [4]pins
		head  placement.Pin
		gpus  [4]compute.Tier
	}{
		"nothing":             {},
		"experts":             {texts: []string{`\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU`}, want: all},
		"anywhere in a name":  {texts: []string{`exps=CPU`}, want: all},
		"the first holds":     {texts: []string{`blk\.2\..*exps=Vulkan1`, `exps=CPU`}, want: [4]pins{{any, ram}, {any, ram}, {any, gpu}, {any, ram}}, gpus: [4]compute.Tier{2: 1}},
		"in one text":         {texts: []string{`blk\.2\..*exps=Vulkan1,exps=CPU`}, want: [4]pins{{any, ram}, {any, ram}, {any, gpu}, {any, ram}}, gpus: [4]compute.Tier{2: 1}},
		"a layer":             {texts: []string{`blk\.1\.=Vulkan0`}, want: [4]pins{{any, any}, {gpu, gpu}, {any, any}, {any, any}}},
		"a look ahead":        {texts: []string{`blk\.(?!1\.)\d+\.ffn_.*_exps=CPU`}, want: [4]pins{{any, ram}, {any, any}, {any, ram}, {any, ram}}},
		"vectors lie on both": {texts: []string{`norm=CPU`}},
		"the head":            {texts: []string{`^output=CPU`}, head: ram},
		"tables in RAM":       {texts: []string{`^token_embd=CPU`}},
	} {
		b, unmatched, err := pin(t, f, c.texts...)
		if err != nil || len(unmatched) > 0 {
			t.Errorf("%s: %v, no tensor matches %q", name, err, unmatched)
			continue
		}
		for l, y := range b.Model.Layers {
			if got := (pins{y.Pins.Attention, y.Pins.Units}); got != c.want[l] || y.Pins.GPU != c.gpus[l] {
				t.Errorf("%s: layer %d is held to %v on GPU %d, want %v on GPU %d", name, l, got, y.Pins.GPU, c.want[l], c.gpus[l])
			}
		}
		if b.Model.HeadPins.Attention != c.head {
			t.Errorf("%s: the head is held to %v, want %v", name, b.Model.HeadPins.Attention, c.head)
		}
	}
}

// TestOverridesOfNeurons: layers without experts have neurons, and predictors.
func TestOverridesOfNeurons(t *testing.T) {
	f := synthetic(t, synth.Spec{Arch: "llama", Type: quant.F16})
	b, unmatched, err := pin(t, f, `blk\.1\.ffn_(gate|up|down)\.=CPU`)
	if y := b.Model.Layers[1].Pins; err != nil || unmatched != nil || y.Units != placement.InRAM || y.Attention != placement.Anywhere {
		t.Errorf("%+v, %v, nothing is said to match %q", y, err, unmatched)
	}
	if _, _, err := pin(t, f, `ffn_up=CPU`); err == nil || !strings.Contains(err.Error(), `match them with \.ffn_(gate|up|down)\.`) {
		t.Error(err)
	}
}

// TestOverridesOfExpertsWithPredictors: predictors, which llama.cpp's patterns do not name, go where their experts go.
func TestOverridesOfExpertsWithPredictors(t *testing.T) {
	f := withExperts(t)
	for l := range 4 {
		for i, shape := range [2][]int{{64, 16, 4}, {16, 96, 4}} {
			f.Tensors = append(f.Tensors, &gguf.Tensor{Name: fmt.Sprintf("blk.%d.fc%d_exps.weight", l, i+1), Type: quant.F16, Shape: shape})
		}
	}
	b, _, err := pin(t, f, `\.ffn_(up|down|gate)_exps=CPU`)
	if err != nil || b.Model.Layers[1].Pins.Units != placement.InRAM {
		t.Errorf("%+v, %v", b.Model.Layers[1].Pins, err)
	}
}

// TestOverridesRefused: indivisible parts are refused, with advice on what to match instead.
func TestOverridesRefused(t *testing.T) {
	f := withExperts(t)
	for text, want := range map[string]string{
		`exps`:                            "is not PATTERN=BUFFER",
		`=CPU`:                            "is not PATTERN=BUFFER",
		`exps=CPU,`:                       "is not PATTERN=BUFFER",
		`(exps=CPU`:                       "is no regular expression",
		`exps=CUDA0`:                      `no buffer type is called "CUDA0"; there are: CPU, Vulkan0, Vulkan1`,
		`ffn_up_exps=CPU`:                 `all experts of a layer lie together: match them with \.ffn_(gate|up|down)_exps`,
		`ffn_gate_inp=CPU`:                `attention, router and shared experts of a layer lie together`,
		`attn_q\.=CPU`:                    `or the experts alone, as \.ffn_.*_exps does`,
		`_exps=CPU,ffn_(up|down)=Vulkan0`: `attention, router and shared experts of a layer lie together`,
		`exps=Vulkan0,blk=Vulkan1`:        "a layer lies on one GPU, and in RAM",
		`.=Vulkan0`:                       "matches token_embd.weight, which stays in RAM",
		`^(b|bl|blk|.)*$=CPU`:             "",
		`(.*)*(.*)*(.*)*[A-Z]=CPU`:        "takes too long; write a simpler pattern",
	} {
		_, _, err := pin(t, f, text)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, unmatched, err := pin(t, f, `attn_z=CPU`, `exps=CPU`, `up_exps=CPU`); err != nil || !slices.Equal(unmatched, []string{"attn_z"}) {
		t.Errorf("%v; nothing is said to match %q", err, unmatched)
	}
}
