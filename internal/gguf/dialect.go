package gguf

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
)

// dialect describes how another program writes the models of one architecture: its names of llama.cpp's keys and
// tensors, and what its files lack. Packages above this one know only llama.cpp's names.
//
// Source: Ollama's converters, and its changes for llama.cpp when it loads such a file (llama/compat).
type dialect struct {
	arch  string            // llama.cpp's name of the architecture; empty: the same
	parts map[string]string // parts of tensors' names between dots
	names map[string]string // tensors' whole names
	usual map[string]any    // values of keys that files leave out, after the architecture's name
	pre   string            // tokenizer.ggml.pre of files that name none, or "default"
	more  func(f *File)     // what else differs; called when names are llama.cpp's
	// own says that parts are llama.cpp's own names, and files are written with them.
	own bool
}

// dialectOf returns the peculiarities of one architecture.
func dialectOf(arch string) dialect {
	switch arch {
	case "deepseekocr":
		return dialect{arch: "deepseek2-ocr", usual: map[string]any{"attention.layer_norm_rms_epsilon": float32(1e-6)}, more: (*File).expertWidths}
	case "gemma3":
		return dialect{more: (*File).gemma3}
	case "gemma3n":
		return dialect{more: (*File).fitVocabulary}
	case "gemma4":
		return dialect{more: (*File).gemma4}
	case "glm4moelite":
		return dialect{arch: "deepseek2", pre: "glm4", more: (*File).latentHeads}
	case "glmocr":
		return dialect{arch: "glm4", pre: "chatglm-bpe", parts: map[string]string{"post_attn_norm": "post_attention_norm", "post_ffn_norm": "post_ffw_norm"}}
	case "gptoss":
		return dialect{arch: "gpt-oss", pre: "gpt-4o", parts: map[string]string{"ffn_norm": "post_attention_norm"}, usual: map[string]any{"rope.scaling.type": "yarn"}}
	case "lfm2", "lfm2moe":
		return dialect{pre: "lfm2", names: map[string]string{"output_norm.weight": "token_embd_norm.weight"}, more: (*File).widthOfGates}
	case "llama":
		return dialect{more: (*File).llama3}
	case "mistral3":
		return dialect{pre: "tekken"}
	case "mllama":
		return dialect{arch: "llama", pre: "llama-bpe", more: (*File).withoutCrossAttention}
	case "nemotron_h_moe":
		return dialect{more: (*File).latentExperts}
	case "nemotron_h_omni":
		return dialect{arch: "nemotron_h", more: (*File).nemotronExperts}
	case "olmo3":
		return dialect{arch: "olmo2"}
	case "qwen25vl":
		return dialect{arch: "qwen2vl"}
	case "rwkv7":
		return dialect{parts: map[string]string{"channel_mix_key": "ffn_up", "channel_mix_value": "ffn_down"}, own: true}
	}
	return dialect{}
}

// keyNames maps other programs' names of keys, after the architecture, to llama.cpp's.
func keyNames() map[string]string {
	return map[string]string{
		"attention.chunk_size":              "attention.sliding_window",
		"head_dim":                          "attention.key_length",
		"rope.freq_base_local":              "rope.freq_base_swa",
		"rope.global.freq_base":             "rope.freq_base",
		"rope.local.freq_base":              "rope.freq_base_swa",
		"rope.mrope_section":                "rope.dimension_sections",
		"rope.scaling.beta_fast":            "rope.scaling.yarn_beta_fast",
		"rope.scaling.beta_slow":            "rope.scaling.yarn_beta_slow",
		"rope.scaling.extrapolation_factor": "rope.scaling.yarn_ext_factor",
		"rope.scaling.mscale_all_dim":       "rope.scaling.yarn_log_multiplier",
		"rope.scaling_beta":                 "attention.temperature_scale",
		"rope.swa.dimension_count":          "rope.dimension_count_swa",
		"rope.swa.freq_base":                "rope.freq_base_swa",
	}
}

// partNames are llama.cpp's names of parts of tensors' names in blocks, whatever the architecture is.
func partNames() map[string]string {
	return map[string]string{
		"attn_out":         "attn_output",
		"ffn_latent_in":    "ffn_latent_down",
		"ffn_latent_out":   "ffn_latent_up",
		"per_expert_scale": "scale",
	}
}

// bareNames are the ends of llama.cpp's tensor names in blocks that others write without one.
func bareNames() map[string]string {
	return map[string]string{"attn_sinks": ".weight", "ssm_dt": ".bias"}
}

// aside are the prefixes of tensors of another model in a text model's file, and what that model is for.
func aside() []struct{ prefix, of string } {
	const seen = "pictures or sound"
	return []struct{ prefix, of string }{
		{"v.", seen},
		{"a.", seen},
		{"mm.", seen},
		{"s.", seen},
		{"model.vision_tower.", seen},
		{"mtp.", "guesses of further tokens"},
	}
}

// normalise brings a text model's file that another program wrote to llama.cpp's names.
func (f *File) normalise() {
	arch := f.arch()
	if arch == "" || f.tensors["token_embd.weight"] == nil {
		return
	}
	d := dialectOf(arch)
	f.setAside()
	f.renameKeys(arch, d)
	f.renameTensors(d)
	if d.pre != "" {
		if pre, _, err := f.String(preKey); err == nil && (pre == "" || pre == "default") {
			f.Set(preKey, d.pre)
		}
	}
	for key, v := range d.usual {
		if key = f.of(key); !f.has(key) {
			f.Set(key, v)
		}
	}
	f.joinCharsmap()
	if d.more != nil {
		d.more(f)
	}
}

const (
	archKey = "general.architecture"
	preKey  = "tokenizer.ggml.pre"
)

// arch returns general.architecture, or an empty string.
func (f *File) arch() string {
	arch, _, _ := f.String(archKey)
	return arch
}

// of returns the architecture's key with this name.
func (f *File) of(name string) string { return f.arch() + "." + name }

func (f *File) has(key string) bool {
	_, ok := f.index[key]
	return ok
}

// setAside takes tensors of other models out of the file, and notes it.
func (f *File) setAside() {
	counts := map[string]int{}
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t *Tensor) bool {
		for _, a := range aside() {
			if strings.HasPrefix(t.Name, a.prefix) {
				delete(f.tensors, t.Name)
				counts[a.of]++
				return true
			}
		}
		return false
	})
	for _, a := range aside() {
		if n := counts[a.of]; n > 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %d tensors for %s are set aside; the text model is used", f.Path, n, a.of))
			delete(counts, a.of)
		}
	}
}

// renameKeys gives the architecture and its keys llama.cpp's names. A key that exists with that name stays.
func (f *File) renameKeys(arch string, d dialect) {
	to := arch
	if d.arch != "" {
		to = d.arch
		f.Set(archKey, to)
	}
	names := keyNames()
	for i := range f.Keys {
		name, ok := strings.CutPrefix(f.Keys[i].Key, arch+".")
		if !ok {
			continue
		}
		if n, other := names[name]; other {
			name = n
		}
		key := to + "." + name
		if f.has(key) {
			continue
		}
		delete(f.index, f.Keys[i].Key)
		f.Keys[i].Key, f.index[key] = key, i
	}
}

// renameTensors gives tensors llama.cpp's names. A tensor that exists with that name stays.
func (f *File) renameTensors(d dialect) {
	parts, bare := partNames(), bareNames()
	for from, to := range d.parts {
		parts[from] = to
	}
	for _, t := range f.Tensors {
		name := t.Name
		if to, ok := d.names[name]; ok {
			name = to
		}
		if strings.HasPrefix(name, "blk.") {
			list := strings.Split(name, ".")
			for i, part := range list {
				if to, ok := parts[part]; ok {
					list[i] = to
				}
			}
			name = strings.Join(list, ".")
			name += bare[list[len(list)-1]]
		}
		f.rename(t, name)
	}
}

// written returns llama.cpp's names of tensors in files with those keys, if they differ from those of most
// architectures.
func written(keys []KV, tensors []Source) []Source {
	arch := ""
	for _, k := range keys {
		if k.Key == archKey {
			arch, _ = k.Value.(string)
		}
	}
	d := dialectOf(arch)
	if !d.own {
		return tensors
	}
	out := slices.Clone(tensors)
	for i := range out {
		list := strings.Split(out[i].Name, ".")
		for j, part := range list {
			for name, ours := range d.parts {
				if part == ours {
					list[j] = name
				}
			}
		}
		out[i].Name = strings.Join(list, ".")
	}
	return out
}

// rename gives t another name, unless it is another tensor's.
func (f *File) rename(t *Tensor, name string) {
	if name == t.Name || f.tensors[name] != nil {
		return
	}
	delete(f.tensors, t.Name)
	t.Name, f.tensors[name] = name, t
}

// joinCharsmap makes bytes of a normalization that is written as base64, a character a text.
func (f *File) joinCharsmap() {
	const key = "tokenizer.ggml.precompiled_charsmap"
	list, ok, err := f.Strings(key)
	if !ok || err != nil {
		return
	}
	if data, err := base64.StdEncoding.DecodeString(strings.Join(list, "")); err == nil {
		f.Set(key, data)
	}
}

// gemma3 completes Gemma 3's files and distinguishes them from EmbeddingGemma's, which have projections after pooling.
func (f *File) gemma3() {
	const dense = "dense.0.weight"
	embeds := f.tensors[dense] != nil
	if embeds {
		f.renameKeys("gemma3", dialect{arch: "gemma-embedding"})
		for _, t := range f.Tensors {
			switch t.Name {
			case dense:
				f.rename(t, "dense_2.weight")
			case "dense.1.weight":
				f.rename(t, "dense_3.weight")
			case "norm.weight":
				f.rename(t, "output_norm.weight")
			}
		}
	}
	f.fitVocabulary()
	// The large models stretch the trained context eight times. Files without the epsilon lack this, too.
	const longContext, stretch = 131072, 8
	context, _, err := f.Uint(f.of("context_length"))
	if !embeds && err == nil && context >= longContext && !f.has(f.of("attention.layer_norm_rms_epsilon")) && !f.has(f.of("rope.scaling.type")) && !f.has(f.of("rope.scaling.factor")) {
		f.Set(f.of("rope.scaling.type"), "linear")
		f.Set(f.of("rope.scaling.factor"), float32(stretch))
	}
}

// gemma4 names the tokenizer as llama.cpp does: unlike SentencePiece's, as files call it, it has merges.
func (f *File) gemma4() {
	const key = "tokenizer.ggml.model"
	if name, _, err := f.String(key); err == nil && name == "llama" && f.has("tokenizer.ggml.merges") {
		f.Set(key, "gemma4")
	}
	f.fitVocabulary()
}

// llama3 names the pre-tokenizer of Llama 3's files that do not, by a token that only these have.
func (f *File) llama3() {
	const end, at = "<|eot_id|>", 128009
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	pre, _, err2 := f.String(preKey)
	if err == nil && err2 == nil && (pre == "" || pre == "default") && at < len(tokens) && tokens[at] == end {
		f.Set(preKey, "llama-bpe")
	}
}

// fitVocabulary leaves out tokens, and rows of tables, that only other models in the file use: those after the rows that
// all tables have.
func (f *File) fitVocabulary() {
	tables := []string{"token_embd.weight", "per_layer_token_embd.weight", "output.weight"}
	rows := math.MaxInt
	for _, name := range tables {
		if t := f.tensors[name]; t != nil {
			rows = min(rows, t.Rows())
		}
	}
	for _, name := range tables {
		if t := f.tensors[name]; t != nil && t.Rows() > rows && len(t.Shape) == 2 && t.Data != nil {
			part := t.Part(name, 0, rows)
			part.PartNo = t.PartNo
			*t = *part
		}
	}
	for _, key := range []string{"tokens", "scores", "token_type"} {
		key = "tokenizer.ggml." + key
		switch v, _ := f.Lookup(key); list := v.(type) {
		case []string:
			f.Set(key, list[:min(rows, len(list))])
		case []float32:
			f.Set(key, list[:min(rows, len(list))])
		case []int32:
			f.Set(key, list[:min(rows, len(list))])
		}
	}
}

// latentHeads names the sizes of heads as llama.cpp does in files with latent attention: key_length and value_length
// are those of the cached vectors, and the heads' own sizes have other keys.
func (f *File) latentHeads() {
	for _, side := range []string{"key_length", "value_length"} {
		if v, ok := f.Lookup(f.of("attention." + side)); ok {
			f.Set(f.of("attention."+side+"_mla"), v)
		}
	}
	latent, ok, err := f.Uint(f.of("attention.kv_lora_rank"))
	rotated, ok2, err2 := f.Uint(f.of("rope.dimension_count"))
	if !ok || !ok2 || err != nil || err2 != nil || latent > math.MaxInt32 || rotated > math.MaxInt32 {
		return
	}
	f.Set(f.of("attention.key_length"), uint32(latent+rotated))
	f.Set(f.of("attention.value_length"), uint32(latent))
	f.Set(f.of("attention.head_count_kv"), uint32(1))
}

// nemotronExperts names the architecture of models with experts, and their latent vectors' width.
func (f *File) nemotronExperts() {
	from := f.arch()
	if n, _, err := f.Uint(f.of("expert_count")); err == nil && n > 0 {
		f.renameKeys(from, dialect{arch: from + "_moe"})
	}
	f.latentExperts()
}

// latentExperts says the width of the latent vectors that experts read, in files that leave it out.
func (f *File) latentExperts() {
	key := f.of("moe_latent_size")
	for _, t := range f.Tensors {
		if strings.HasSuffix(t.Name, ".ffn_latent_down.weight") && !f.has(key) && t.Rows() <= math.MaxInt32 {
			f.Set(key, uint32(t.Rows()))
		}
	}
}

// widthOfGates sets feed_forward_length to the size of the first layer's gates, which some files contradict.
func (f *File) widthOfGates() {
	key, t := f.of("feed_forward_length"), f.tensors["blk.0.ffn_gate.weight"]
	if v, ok, err := f.Uint(key); err == nil && ok && t != nil && v != uint64(t.Rows()) && t.Rows() <= math.MaxInt32 {
		f.Set(key, uint32(t.Rows()))
	}
}

// expertWidths says how many neurons an expert has, and how many experts every token uses, by the shapes of the second
// layer's, in files that leave it out.
func (f *File) expertWidths() {
	width, count := f.of("expert_feed_forward_length"), f.of("expert_shared_count")
	down, shared := f.tensors["blk.1.ffn_down_exps.weight"], f.tensors["blk.1.ffn_down_shexp.weight"]
	if down == nil || down.Shape[0] > math.MaxInt32 || f.has(width) {
		return
	}
	f.Set(width, uint32(down.Shape[0]))
	if shared != nil && shared.Shape[0]/down.Shape[0] > 0 && !f.has(count) {
		f.Set(count, uint32(shared.Shape[0]/down.Shape[0]))
	}
}

// withoutCrossAttention leaves out the layers that read pictures only: a text without pictures passes them by.
func (f *File) withoutCrossAttention() {
	cross, ok, err := f.Int32s(f.of("attention.cross_attention_layers"))
	layers, ok2, err2 := f.Uint(f.of("block_count"))
	if !ok || !ok2 || err != nil || err2 != nil || layers > maxBlocks {
		return
	}
	leftOut := map[int32]bool{}
	for _, l := range cross {
		leftOut[l] = true
	}
	to := map[string]string{} // numbers of the layers that stay, by those in the file
	for l := range int32(layers) {
		if !leftOut[l] {
			to[fmt.Sprint(l)] = fmt.Sprint(len(to))
		}
	}
	left := 0
	kept := f.Tensors[:0]
	f.tensors = map[string]*Tensor{}
	for _, t := range f.Tensors {
		if rest, inBlock := strings.CutPrefix(t.Name, "blk."); inBlock {
			number, name, _ := strings.Cut(rest, ".")
			n, stays := to[number]
			if !stays {
				left++
				continue
			}
			t.Name = "blk." + n + "." + name
		}
		f.tensors[t.Name] = t
		kept = append(kept, t)
	}
	f.Tensors = kept
	f.Set(f.of("block_count"), uint32(len(to)))
	if left > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s: %d layers that read pictures (%d tensors) are set aside; the text model is used", f.Path, int(layers)-len(to), left))
	}
	f.fitVocabulary()
}

// maxBlocks is more layers than any model has.
const maxBlocks = 1 << 12
