package lineage

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestFamilies: every tensor is listed once, and is found on Hugging Face unless it is computed; every block has what
// the forward pass and the neurons need.
func TestFamilies(t *testing.T) {
	names, sources := map[string]bool{}, map[string]bool{}
	for _, f := range All() {
		if got, ok := Named(f.Name); !ok || got.Name != f.Name || names[f.Name] {
			t.Errorf("%s is not found by its name, or there are two", f.Name)
		}
		names[f.Name] = true
		for _, a := range f.HuggingFace {
			if got, _ := Converted(a); got.Name != f.Name || sources[a] {
				t.Errorf("%s is converted as %s, not %s", a, got.Name, f.Name)
			}
			sources[a] = true
		}
		seen := map[string]bool{}
		for _, tensor := range append(append([]Tensor{}, f.Outer...), f.Block...) {
			if seen[tensor.Name] {
				t.Errorf("%s: %s stands twice", f.Name, tensor.Name)
			}
			seen[tensor.Name] = true
			if (tensor.Change == Computed) != (tensor.Source == "") {
				t.Errorf("%s: %s is from %q and changes by %d", f.Name, tensor.Name, tensor.Source, tensor.Change)
			}
			ofHeads := tensor.Name == "attn_q_norm.weight" || tensor.Name == "attn_k_norm.weight"
			if f.NormBiases() && !ofHeads && strings.Contains(tensor.Name, "_norm") && strings.HasSuffix(tensor.Name, ".weight") && !has(f, strings.Replace(tensor.Name, ".weight", ".bias", 1)) {
				t.Errorf("%s: %s is a LayerNorm without a bias", f.Name, tensor.Name)
			}
		}
		if f.OnlyRecurrent() {
			for _, name := range []string{"attn_norm.weight", "ssm_in.weight", "ssm_out.weight"} {
				if !has(f, name) {
					t.Errorf("%s: blocks have no %s", f.Name, name)
				}
			}
			continue
		}
		in, gates := "ffn_up.weight", "ffn_gate.weight"
		if !has(f, in) && f.Experts != nil && !f.Experts.Optional { // all layers have experts
			in, gates = "ffn_up_exps.weight", "ffn_gate_exps.weight"
		}
		out := "attn_output.weight"
		if f.Compresses() { // in two products
			out = "attn_output_b.weight"
		}
		for _, name := range []string{out, in, strings.Replace(in, "up", "down", 1)} {
			if _, ok := f.InBlock(name); !ok && !(f.TimeMixed() && name == "attn_output.weight") {
				t.Errorf("%s: blocks have no %s", f.Name, name)
			}
		}
		if _, gate := f.InBlock(gates); gate != (f.Gated && !f.FusedGate) {
			t.Errorf("%s: Gated is %v, FusedGate %v, and blocks have a gate of their own: %v", f.Name, f.Gated, f.FusedGate, gate)
		}
		before := f.NormWeight(cmp.Or(f.FFNNorm, "ffn_norm"))
		if _, ffnNorm := f.InBlock(before); f.PreNorm() && !f.BareNorms && ffnNorm == f.Parallel && f.ParallelKey == "" && !f.OnePart {
			t.Errorf("%s: Parallel is %v, and ffn_norm is there: %v", f.Name, f.Parallel, ffnNorm)
		}
		for _, norms := range [][2]string{{"attn_norm.weight", "post_attention_norm.weight"}, {before, "post_ffw_norm.weight"}} {
			if _, after := f.InBlock(norms[1]); !has(f, norms[0]) && !after && !f.Parallel && !f.OnePart && !f.BareNorms && !f.GatedStreams && !(f.NormSum && has(f, "attn_output_norm.weight") && has(f, "layer_output_norm.weight")) {
				t.Errorf("%s: blocks have neither %s nor %s", f.Name, norms[0], norms[1])
			}
		}
	}
}

// TestKeys: encoding/json reads a key that two fields claim into neither.
func TestKeys(t *testing.T) {
	seen := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		key := f.Tag.Get("json")
		if f.Anonymous || key == "" {
			continue
		}
		if other, ok := seen[key]; ok && key != "-" {
			t.Errorf("%s and %s are both of the key %q", other, f.Name, key)
		}
		seen[key] = f.Name
	}
}

func has(f Family, name string) bool {
	for _, t := range append(append([]Tensor{}, f.Outer...), f.Block...) {
		if t.Name == name {
			return true
		}
	}
	return false
}

// TestSmallThinkerLayouts: layouts of layers that GGUF files cannot express are refused with their key.
func TestSmallThinkerLayouts(t *testing.T) {
	late, all := false, []int{1, 1, 1, 1, 1}
	for _, c := range []struct {
		change func(c *Config)
		window int
		key    string // of the refusal; empty: there is none
	}{
		{func(*Config) {}, 8, ""},
		{func(c *Config) { c.WindowSize, c.Rotated = 0, all }, 0, ""},
		{func(c *Config) { c.Windows, c.Rotated = make([]int, 5), all }, 0, ""},
		{func(c *Config) { c.Windows = make([]int, 5) }, 0, "rope_layout"},
		{func(c *Config) { c.Rotated = all }, 0, "rope_layout"},
		{func(c *Config) { c.Windows = all }, 0, "sliding_window_layout"},
		{func(c *Config) { c.Windows = all[:3] }, 0, "sliding_window_layout"},
		{func(c *Config) { c.Mixed = []int{0, 1, 1, 1, 1} }, 0, "moe_layer_layout"},
		{func(c *Config) { c.Early = &late }, 0, "moe_enable_early_router"},
		{func(c *Config) { c.Secondary = true }, 0, "moe_enable_secondary_experts"},
	} {
		config := Config{Layers: 5}
		config.SmallThinker = SmallThinker{
			Experts: 8, Used: 2, Width: 32, WindowSize: 8, Rotated: []int{0, 1, 1, 1, 0}, Windows: []int{0, 1, 1, 1, 0},
		}
		c.change(&config)
		err := readSmallThinker(&config)
		switch {
		case c.key == "" && (err != nil || config.Window != c.window):
			t.Errorf("a window of %d, not %d; %v", config.Window, c.window, err)
		case c.key != "" && (err == nil || !strings.Contains(err.Error(), c.key)):
			t.Errorf("error %v does not name %s", err, c.key)
		}
	}
}

// TestQwen35Sections: a configuration that names no sections of a head has Qwen3.5's.
func TestQwen35Sections(t *testing.T) {
	f, _ := Named("qwen35")
	c := Config{Layers: 4, RotationKeys: RotationKeys{Rope: &RopeScaling{Theta: 1e7}}}
	if err := f.Read(&c); err != nil || !slices.Equal(c.Rope.Sections, []int{11, 11, 10}) {
		t.Errorf("sections %v, error %v", c.Rope.Sections, err)
	}
	c = Config{Layers: 4, RotationKeys: RotationKeys{Rope: &RopeScaling{Sections: []int{4, 2, 2}}}}
	if err := f.Read(&c); err != nil || !slices.Equal(c.Rope.Sections, []int{4, 2, 2}) {
		t.Errorf("sections %v, error %v", c.Rope.Sections, err)
	}
}

// TestConfigKeys: encoding/json ignores a key that two embedded structs have.
func TestConfigKeys(t *testing.T) {
	owner := map[string]string{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			if f.Anonymous {
				walk(f.Type)
				continue
			}
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "" || key == "-" {
				continue
			}
			if other, taken := owner[key]; taken {
				t.Errorf("key %q is a field of %s and of %s", key, other, of.Name())
			}
			owner[key] = of.Name()
		}
	}
	walk(reflect.TypeFor[Config]())
}
