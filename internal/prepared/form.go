package prepared

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// originalPositions is the only number of learned positions that the original loads.
const originalPositions = 2050

// originalForm is what the original loads of an architecture, and how it computes it. It loads no biases that some
// files of a family lack, and no models with experts. Everything is required but what stands in optional.
type originalForm struct {
	activation             string
	outer, block, optional string // names of tensors, separated by spaces; those of a block without "blk.N."
	eps                    string // key of the norms' epsilon, required; empty: it is not read
	rotated                bool   // heads are rotated whole
	layerNorm              bool   // norms are LayerNorms
}

// originalForms returns the architectures that the original runs.
func originalForms() map[string]originalForm {
	const predictor = " fc1.weight fc2.weight"
	llama := originalForm{
		activation: "relu", eps: "attention.layer_norm_rms_epsilon", rotated: true,
		outer: "token_embd.weight output_norm.weight output.weight",
		block: "attn_norm.weight attn_q.weight attn_k.weight attn_v.weight attn_output.weight " +
			"ffn_norm.weight ffn_gate.weight ffn_up.weight ffn_down_t.weight" + predictor,
	}
	bamboo := llama
	bamboo.activation = "drelu"
	return map[string]originalForm{
		"llama": llama, "bamboo": bamboo,
		"falcon": {
			activation: "relu", eps: "attention.layer_norm_epsilon", rotated: true, layerNorm: true,
			outer:    "token_embd.weight output_norm.weight output_norm.bias output.weight",
			block:    "attn_norm.weight attn_norm.bias attn_qkv.weight attn_output.weight ffn_up.weight ffn_down_t.weight" + predictor,
			optional: "attn_norm_2.weight attn_norm_2.bias",
		},
		"opt": { // the head is always tied
			activation: "relu", layerNorm: true,
			outer: "token_embd.weight position_embd.weight output_norm.weight output_norm.bias",
			block: "attn_norm.weight attn_norm.bias attn_q.weight attn_k.weight attn_v.weight attn_q.bias attn_k.bias attn_v.bias " +
				"attn_output.weight attn_output.bias ffn_norm.weight ffn_norm.bias ffn_up.weight ffn_up.bias ffn_down_t.weight ffn_down_t.bias" + predictor,
		},
	}
}

// Originals lists the architectures that the original runs, for messages.
func Originals() string { return strings.Join(slices.Sorted(maps.Keys(originalForms())), ", ") }

// CreateOriginal writes a model with predictors as a file of the original PowerInfer. The file appears when it is
// complete. Keys get the types that the program requires, and a tied head a copy, which it needs. A model that it would
// refuse, misread or crash on is an error with the key or tensor. progress may be nil.
func CreateOriginal(ctx context.Context, path string, keys []gguf.KV, tensors []gguf.Source, progress func(done, total int64)) error {
	o, err := newOriginal(keys, tensors)
	if err != nil {
		return fmt.Errorf("%s in the original PowerInfer's form: %w", path, err)
	}
	return gguf.Create(ctx, path, "PWRI", o.outKeys, o.outTensors, progress)
}

// original is a file in the making.
type original struct {
	form                    originalForm
	arch                    string
	layers, embd, ff, heads int
	keys                    map[string]any
	tensors                 map[string]*gguf.Source
	outKeys                 []gguf.KV
	outTensors              []gguf.Source
}

func newOriginal(keys []gguf.KV, tensors []gguf.Source) (*original, error) {
	o := &original{keys: map[string]any{}, tensors: map[string]*gguf.Source{}}
	if err := o.readKeys(keys); err != nil {
		return nil, err
	}
	if err := o.readTensors(tensors); err != nil {
		return nil, err
	}
	return o, o.vocabulary()
}

// readKeys gives keys their types and checks what the original computes with.
func (o *original) readKeys(keys []gguf.KV) error {
	for _, kv := range keys {
		v, err := exactly(kv.Key, kv.Value)
		if err != nil {
			return err
		}
		o.keys[kv.Key] = v
		o.outKeys = append(o.outKeys, gguf.KV{Key: kv.Key, Value: v})
	}
	o.arch, _ = o.keys["general.architecture"].(string)
	var ok bool
	if o.form, ok = originalForms()[o.arch]; !ok {
		return bad("general.architecture", "%.80q is not one of %s", o.arch, Originals())
	}
	for _, k := range []struct {
		name string
		to   *int
		most uint32
	}{
		{"context_length", nil, math.MaxInt32},
		{"block_count", &o.layers, maxLayers},
		{"embedding_length", &o.embd, maxWidth},
		{"feed_forward_length", &o.ff, maxWidth},
		{"attention.head_count", &o.heads, maxWidth},
	} {
		key := o.arch + "." + k.name
		n, ok := o.keys[key].(uint32)
		if !ok || n < 1 || n > k.most {
			return bad(key, "it is missing or outside 1…%d", k.most)
		}
		if k.to != nil {
			*k.to = int(n)
		}
	}
	if o.form.eps != "" {
		if _, ok := o.keys[o.arch+"."+o.form.eps]; !ok {
			return bad(o.arch+"."+o.form.eps, "it is missing")
		}
	}
	return o.attention()
}

// attention checks what the original derives instead of reading it.
func (o *original) attention() error {
	head := o.embd / o.heads
	for _, name := range []string{"attention.key_length", "attention.value_length", "rope.dimension_count"} {
		v, ok := o.keys[o.arch+"."+name].(uint32)
		if ok && (int(v) != head || o.embd%o.heads != 0) && (o.form.rotated || name != "rope.dimension_count") {
			return bad(o.arch+"."+name, "%d; heads of the original are n_embd / heads = %d/%d wide", v, o.embd, o.heads)
		}
	}
	key := o.arch + ".rope.scaling.type"
	if v, ok := o.keys[key]; ok && !slices.Contains([]any{"none", "linear", "yarn"}, v) {
		return bad(key, "%.80q is not one of none, linear, yarn", v)
	}
	return nil
}

// exactly is v in the type that the original insists on under key.
func exactly(key string, v any) (any, error) {
	_, name, _ := strings.Cut(key, ".")
	r := reflect.ValueOf(v)
	switch name {
	case "context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
		"attention.key_length", "attention.value_length", "rope.dimension_count", "rope.scaling.original_context_length", "file_type",
		"quantization_version", "ggml.bos_token_id", "ggml.eos_token_id", "ggml.unknown_token_id", "ggml.seperator_token_id", "ggml.padding_token_id":
		switch {
		case r.CanUint() && r.Uint() <= math.MaxUint32:
			return uint32(r.Uint()), nil
		case r.CanInt() && r.Int() >= 0 && r.Int() <= math.MaxUint32:
			return uint32(r.Int()), nil
		}
		return nil, bad(key, "it is no 32-bit number")
	case "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", "rope.freq_base", "rope.scaling.factor", "rope.scale_linear", "sparse_threshold":
		switch {
		case r.CanFloat():
			return float32(r.Float()), nil
		case r.CanInt():
			return float32(r.Int()), nil
		case r.CanUint():
			return float32(r.Uint()), nil
		}
		return nil, bad(key, "it is no number")
	}
	return v, nil
}

// readTensors checks names, shapes and types, and unties the head.
func (o *original) readTensors(tensors []gguf.Source) error {
	expected := map[string]bool{} // value: required
	for _, n := range strings.Fields(o.form.outer) {
		expected[n] = true
	}
	for l := range o.layers {
		blk := fmt.Sprintf("blk.%d.", l)
		for _, n := range strings.Fields(o.form.block) {
			expected[blk+n] = true
		}
		for _, n := range strings.Fields(o.form.optional) {
			expected[blk+n] = false
		}
	}
	for _, t := range tensors {
		if strings.HasSuffix(t.Name, ".attn_rot_embd") { // a cache of old converters
			continue
		}
		if _, ok := expected[t.Name]; !ok {
			return fmt.Errorf("tensor %q is unknown to the original's %s", t.Name, o.arch)
		}
		if err := o.checkTensor(&t); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		o.outTensors = append(o.outTensors, t)
	}
	for i := range o.outTensors {
		o.tensors[o.outTensors[i].Name] = &o.outTensors[i]
	}
	if e := o.tensors["token_embd.weight"]; e != nil && expected["output.weight"] && o.tensors["output.weight"] == nil {
		head := *e
		head.Name = "output.weight"
		o.outTensors, o.tensors[head.Name] = append(o.outTensors, head), &head
	}
	for _, name := range sortedNames(expected) {
		if expected[name] && o.tensors[name] == nil {
			return fmt.Errorf("tensor %q is missing", name)
		}
	}
	return o.checkPredictors()
}

func sortedNames(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// isNeurons reports whether a tensor's rows are neurons' weights.
func isNeurons(name string) bool {
	return strings.HasSuffix(name, ".ffn_gate.weight") || strings.HasSuffix(name, ".ffn_up.weight") || strings.HasSuffix(name, ".ffn_down_t.weight")
}

func (o *original) checkTensor(t *gguf.Source) error {
	neurons := isNeurons(t.Name)
	switch {
	case len(t.Shape) == 1 && t.Type != quant.F32:
		return fmt.Errorf("a vector of %s; the original needs F32", t.Type)
	case neurons && t.Type != quant.F16 && t.Type != quant.Q4_0:
		return fmt.Errorf("type %s; the original runs feed-forward layers in F16 and Q4_0 only", t.Type)
	case t.Type == quant.BF16:
		return fmt.Errorf("the original knows no BF16")
	case neurons && !slices.Equal(t.Shape, []int{o.embd, o.ff}):
		return fmt.Errorf("shape %v, not [%d %d]", t.Shape, o.embd, o.ff)
	case neurons && o.embd%8 != 0:
		return fmt.Errorf("a width of %d; the original adds neurons up in steps of 8", o.embd)
	case strings.HasSuffix(t.Name, ".ffn_down_t.weight") && t.Type == quant.Q4_0 && o.ff%quant.QK != 0:
		return fmt.Errorf("%d neurons; in Q4_0 the original needs a multiple of %d", o.ff, quant.QK)
	case t.Name == "position_embd.weight" && !slices.Equal(t.Shape, []int{o.embd, originalPositions}):
		return fmt.Errorf("shape %v; the original loads [%d %d] only", t.Shape, o.embd, originalPositions)
	}
	return nil
}

// checkPredictors holds the shapes that the original does not check before it reads out of bounds.
func (o *original) checkPredictors() error {
	for l := range o.layers {
		fc1, fc2 := o.tensors[fmt.Sprintf("blk.%d.fc1.weight", l)], o.tensors[fmt.Sprintf("blk.%d.fc2.weight", l)]
		if len(fc1.Shape) != 2 || fc1.Shape[0] != o.embd || !slices.Equal(fc2.Shape, []int{fc1.Shape[1], o.ff}) {
			return fmt.Errorf("layer %d: predictors of shapes %v and %v, not [%d rank] and [rank %d]", l, fc1.Shape, fc2.Shape, o.embd, o.ff)
		}
	}
	return nil
}

// vocabulary checks what makes the original crash.
func (o *original) vocabulary() error {
	const key = "tokenizer.ggml.tokens"
	tokens, ok := o.keys[key].([]string)
	if !ok {
		return bad(key, "missing, or not an array of strings")
	}
	if rows := o.tensors["token_embd.weight"].Shape[1:]; !slices.Equal(rows, []int{len(tokens)}) {
		return bad(key, "%d tokens for an embedding of %v rows", len(tokens), rows)
	}
	seen := map[string]int{}
	for i, text := range tokens {
		if before, twice := seen[text]; twice || text == "" {
			return bad(key, "token %d is empty or the same as %d", i, before)
		}
		seen[text] = i
	}
	if o.keys["tokenizer.ggml.model"] == "llama" {
		if _, ok := seen["<0x0A>"]; !ok {
			return bad(key, "no token <0x0A>, which the original needs")
		}
	}
	return nil
}
