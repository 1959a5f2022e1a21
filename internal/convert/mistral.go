package convert

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// Folders in Mistral's own form have params.json instead of config.json, consolidated.safetensors with other names, and
// tekken.json. Their settings are translated to those of transformers' folders, and the rows of queries and keys, which
// are rotated in neighbouring pairs here, are put into transformers' order. All other code then reads one form.

// paramsFile has the hyperparameters of folders in Mistral's form.
const paramsFile = "params.json"

// mistralParams is the content of params.json.
type mistralParams struct {
	Kind    string  `json:"model_type"`
	Dim     int     `json:"dim"`
	Layers  int     `json:"n_layers"`
	Head    int     `json:"head_dim"`
	Hidden  int     `json:"hidden_dim"`
	Heads   int     `json:"n_heads"`
	KVHeads int     `json:"n_kv_heads"`
	Eps     float64 `json:"norm_eps"`
	Vocab   int     `json:"vocab_size"`
	Theta   float64 `json:"rope_theta"`
	Tied    bool    `json:"tied_embeddings"`
	Context int     `json:"max_position_embeddings"`
	Longest int     `json:"max_seq_len"`
	YaRN    *struct {
		Factor   float64 `json:"factor"`
		Original int     `json:"original_max_position_embeddings"`
		Fast     float64 `json:"beta"`
		Slow     float64 `json:"alpha"`
		Scales   *bool   `json:"apply_scale"`
	} `json:"yarn"`
	Growth *struct {
		Original int     `json:"original_max_position_embeddings"`
		Beta     float64 `json:"beta"`
	} `json:"llama_4_scaling"`
	Latent       int                        `json:"kv_lora_rank"`
	QueryLatent  int                        `json:"q_lora_rank"`
	Turned       int                        `json:"qk_rope_head_dim"`
	NotTurned    int                        `json:"qk_nope_head_dim"`
	Value        int                        `json:"v_head_dim"`
	Mixture      *mistralMixture            `json:"moe"`
	Quantization map[string]json.RawMessage `json:"quantization"`
	Vision       map[string]json.RawMessage `json:"vision_encoder"`
	Multimodal   struct {
		Vision map[string]json.RawMessage `json:"vision_encoder_args"`
		Sound  json.RawMessage            `json:"whisper_model_args"`
	} `json:"multimodal"`
}

// mistralMixture is params.json's settings of experts.
type mistralMixture struct {
	Count      int     `json:"num_experts"`
	Used       int     `json:"num_experts_per_tok"`
	First      int     `json:"first_k_dense_replace"`
	Every      int     `json:"route_every_n"`
	Width      int     `json:"expert_hidden_dim"`
	Scale      float64 `json:"routed_scale"`
	Shared     int     `json:"num_shared_experts"`
	Groups     int     `json:"num_expert_groups"`
	GroupsUsed int     `json:"num_expert_groups_per_tok"`
}

// readParams reads params.json in dir; nil if it is not there.
func readParams(dir string) (*mistralParams, error) {
	path := filepath.Join(dir, paramsFile)
	if !checkpoint.Exists(path) {
		return nil, nil
	}
	p := &mistralParams{}
	return p, checkpoint.ReadJSON(path, p)
}

// readSettings returns config.json, or else params.json translated to its form, and the path of the file.
func readSettings(dir string) (path string, data []byte, err error) {
	path = filepath.Join(dir, "config.json")
	if !checkpoint.Exists(path) {
		p, err := readParams(dir)
		if err != nil {
			return "", nil, err
		}
		if p != nil {
			path = filepath.Join(dir, paramsFile)
			data, err = p.settings(path)
			return path, data, err
		}
	}
	data, err = checkpoint.ReadFile(path)
	return path, data, err
}

// settings returns what config.json would say. It leaves out sliding windows, which files of these families do not have.
func (p *mistralParams) settings(path string) ([]byte, error) {
	fail := func(key, format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("%s: key %q: %s", path, key, fmt.Sprintf(format, args...))
	}
	if p.Kind == "mamba" {
		return fail("model_type", "recurrent models in this form are not supported; convert the folder in transformers' form")
	}
	const usualContext = 128_000
	text := map[string]any{
		"model_type": "mistral", "hidden_size": p.Dim, "num_hidden_layers": p.Layers, "head_dim": p.Head, "intermediate_size": p.Hidden, "num_attention_heads": p.Heads,
		"num_key_value_heads": p.KVHeads, "rms_norm_eps": p.Eps, "vocab_size": p.Vocab, "tie_word_embeddings": p.Tied, "hidden_act": "silu",
		"max_position_embeddings": cmp.Or(p.Context, p.Longest, usualContext),
	}
	architecture := "MistralForCausalLM"
	if p.Growth != nil {
		architecture = "Ministral3ForCausalLM"
	}
	if m := p.Mixture; m != nil {
		architecture = "MixtralForCausalLM"
		text["num_local_experts"], text["num_experts_per_tok"] = m.Count, m.Used
		if p.Latent > 0 {
			text["n_routed_experts"], text["first_k_dense_replace"], text["moe_intermediate_size"], text["n_shared_experts"] = m.Count, m.First, m.Width, m.Shared
			text["routed_scaling_factor"], text["n_group"], text["topk_group"] = m.Scale, m.Groups, m.GroupsUsed
			if m.Every > 1 {
				text["moe_layer_freq"] = m.Every
			}
		}
	}
	if p.Latent > 0 {
		architecture = "Mistral4ForCausalLM"
		text["model_type"], text["num_key_value_heads"] = "mistral4", p.Heads
		text["kv_lora_rank"], text["q_lora_rank"], text["qk_rope_head_dim"], text["qk_nope_head_dim"], text["v_head_dim"] = p.Latent, p.QueryLatent, p.Turned, p.NotTurned, p.Value
	}
	rope := map[string]any{"rope_type": "default", "rope_theta": cmp.Or(p.Theta, 10000)}
	if y := p.YaRN; y != nil {
		rope = map[string]any{"rope_type": "yarn", "rope_theta": cmp.Or(p.Theta, 10000), "factor": y.Factor, "original_max_position_embeddings": y.Original, "beta_fast": y.Fast, "beta_slow": y.Slow}
		switch {
		case p.Latent > 0:
			rope["mscale"], rope["mscale_all_dim"] = 1, 1
		case !or(y.Scales, true):
			rope["attention_factor"] = 1
		}
	}
	if g := p.Growth; g != nil {
		rope["llama_4_scaling_beta"] = g.Beta
		if p.YaRN == nil {
			rope["original_max_position_embeddings"] = g.Original
		} else if g.Original != p.YaRN.Original {
			return fail("llama_4_scaling", "%d positions beside %d of yarn are not supported", g.Original, p.YaRN.Original)
		}
	}
	text["rope_parameters"] = rope
	all := text
	vision := p.Vision
	if vision == nil {
		vision = p.Multimodal.Vision
	}
	if vision != nil || len(p.Multimodal.Sound) > 0 {
		text["architectures"] = []string{architecture}
		all = map[string]any{"architectures": []string{"LlavaForConditionalGeneration"}, "text_config": text, "tie_word_embeddings": p.Tied}
		if vision != nil {
			all["vision_config"] = vision
			if n := vision["spatial_merge_size"]; n != nil {
				all["spatial_merge_size"] = n
			}
		}
	} else {
		all["architectures"] = []string{architecture}
	}
	if q := p.Quantization; q != nil {
		var format, method string
		_ = json.Unmarshal(q["qformat_weight"], &format)
		_ = json.Unmarshal(q["quant_method"], &method)
		switch {
		case format == "fp8_e4m3":
			all["quantization_config"] = map[string]any{"quant_method": "fp8"}
		case strings.ReplaceAll(strings.ToLower(method), "_", "-") == "compressed-tensors":
			q["quant_method"] = json.RawMessage(`"compressed-tensors"`)
			all["quantization_config"] = q
		default:
			return fail("quantization", "weights quantised as %.40q are not read; fp8_e4m3 and compressed-tensors are", cmp.Or(format, method))
		}
	}
	return json.Marshal(all)
}

// openFolder opens a folder's weights, and unpacks them if they may be packed. Those in Mistral's form get the names and
// the order of transformers' folders.
func openFolder(dir string, packing *checkpoint.Packing) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return nil, err
	}
	var p *mistralParams
	if c.Consolidated() {
		if p, err = readParams(dir); err == nil && p == nil {
			err = fmt.Errorf("%s: file %s is not beside it; download the model's folder with all its files", c.Path, paramsFile)
		}
		if err == nil {
			err = c.Rename(p.renamed)
		}
	}
	if err == nil && packing != nil {
		err = c.Unpack(*packing)
	}
	if err == nil && p != nil {
		err = c.Rename(p.turned) // now, because packed matrices have scales and zeros of several rows
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// mistralNames lists the new names of names in Mistral's form. The first match counts; $1 and so on are parts of the
// expression.
var mistralNames = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`^tok_embeddings\.`), "model.embed_tokens."},
	{regexp.MustCompile(`^norm\.`), "model.norm."},
	{regexp.MustCompile(`^output\.`), "lm_head."},
	{regexp.MustCompile(`^(layers\.\d+\.)attention_norm\.`), "model.${1}input_layernorm."},
	{regexp.MustCompile(`^(layers\.\d+\.)ffn_norm\.`), "model.${1}post_attention_layernorm."},
	{regexp.MustCompile(`^(layers\.\d+\.)attention\.w([qkvo])\.`), "model.${1}self_attn.${2}_proj."},
	{regexp.MustCompile(`^(layers\.\d+\.)attention\.(q|kv)_a_norm\.`), "model.${1}self_attn.${2}_a_layernorm."},
	{regexp.MustCompile(`^(layers\.\d+\.)attention\.wkv_a_with_mqa\.`), "model.${1}self_attn.kv_a_proj_with_mqa."},
	{regexp.MustCompile(`^(layers\.\d+\.)attention\.w(q_a|q_b|kv_b)\.`), "model.${1}self_attn.${2}_proj."},
	{regexp.MustCompile(`^(layers\.\d+\.)feed_forward\.(experts\.\d+\.w\d|gate)\.`), "model.${1}block_sparse_moe.${2}."},
	{regexp.MustCompile(`^(layers\.\d+\.)gate\.`), "model.${1}mlp.gate."},
	{regexp.MustCompile(`^(layers\.\d+\.)(?:feed_forward\.)?((?:experts\.\d+\.|shared_experts\.)?)w1\.`), "model.${1}mlp.${2}gate_proj."},
	{regexp.MustCompile(`^(layers\.\d+\.)(?:feed_forward\.)?((?:experts\.\d+\.|shared_experts\.)?)w2\.`), "model.${1}mlp.${2}down_proj."},
	{regexp.MustCompile(`^(layers\.\d+\.)(?:feed_forward\.)?((?:experts\.\d+\.|shared_experts\.)?)w3\.`), "model.${1}mlp.${2}up_proj."},
	{regexp.MustCompile(`^vision_encoder\.(.*\.attention\.)w([qkvo])\.`), "vision_tower.${1}${2}_proj."},
	{regexp.MustCompile(`^vision_encoder\.(.*\.feed_forward\.)w1\.`), "vision_tower.${1}gate_proj."},
	{regexp.MustCompile(`^vision_encoder\.(.*\.feed_forward\.)w2\.`), "vision_tower.${1}down_proj."},
	{regexp.MustCompile(`^vision_encoder\.(.*\.feed_forward\.)w3\.`), "vision_tower.${1}up_proj."},
	{regexp.MustCompile(`^vision_encoder\.`), "vision_tower."},
	{regexp.MustCompile(`^vision_language_adapter\.w_in\.`), "multi_modal_projector.linear_1."},
	{regexp.MustCompile(`^vision_language_adapter\.w_out\.`), "multi_modal_projector.linear_2."},
	{regexp.MustCompile(`^patch_merger\.`), "multi_modal_projector.patch_merger."},
	{regexp.MustCompile(`^pre_mm_projector_norm\.`), "multi_modal_projector.norm."},
	{regexp.MustCompile(`^mm_whisper_embeddings\.`), "audio_tower."},
}

// turnedRows matches the new names of matrices of queries and keys, which have their rows in another order.
var turnedRows = regexp.MustCompile(`^(?:(vision_tower)\..*\.attention|model\.layers\.\d+\.self_attn)\.([qk])_proj\.`)

// renamed is an argument of Checkpoint.Rename, which changes names.
func (p *mistralParams) renamed(t *checkpoint.Tensor) (name string, row func(int) int, kept bool) {
	name = t.Name
	for _, n := range mistralNames {
		if n.from.MatchString(name) {
			name = n.from.ReplaceAllString(name, n.to)
			break
		}
	}
	if base, ok := strings.CutSuffix(name, ".qscale_weight"); ok {
		name = base + ".weight_scale"
	}
	return name, nil, !strings.HasSuffix(name, ".qscale_act") // of activations
}

// turned is an argument of Checkpoint.Rename, which changes the order of rows.
func (p *mistralParams) turned(t *checkpoint.Tensor) (name string, row func(int) int, kept bool) {
	if m := turnedRows.FindStringSubmatch(t.Name); m != nil && len(t.Shape) > 0 {
		heads := p.Heads
		if m[1] != "" {
			heads = p.visionHeads()
		} else if m[2] == "k" {
			heads = cmp.Or(p.KVHeads, p.Heads)
		}
		if heads > 0 && t.Shape[0] > heads && t.Shape[0]%(2*heads) == 0 {
			head := t.Shape[0] / heads
			row = halves(head, head)
		}
	}
	return t.Name, row, true
}

// visionHeads returns the heads of the tower of pictures.
func (p *mistralParams) visionHeads() (n int) {
	for _, part := range []map[string]json.RawMessage{p.Vision, p.Multimodal.Vision} {
		_ = json.Unmarshal(part["num_attention_heads"], &n)
	}
	return n
}

// tekkenFile is Mistral's vocabulary.
const tekkenFile = "tekken.json"

// tekken is the content of tekken.json.
type tekken struct {
	Config struct {
		Size     int `json:"default_vocab_size"`
		Specials int `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes string `json:"token_bytes"` // in base64
	} `json:"vocab"`
	Special []struct {
		Rank int    `json:"rank"`
		Text string `json:"token_str"`
	} `json:"special_tokens"`
}

// oldSpecials are the special tokens of files that do not list them, in their order.
var oldSpecials = []string{
	"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
	"[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
}

// readTekken returns the special tokens of tekken.json, which come first, and the others in the order of their ranks.
func readTekken(path string) (specials, tokens []string, err error) {
	var t tekken
	if err := checkpoint.ReadJSON(path, &t); err != nil {
		return nil, nil, err
	}
	n := t.Config.Specials
	if n < 0 || n > 1<<16 || t.Config.Size < n || t.Config.Size-n > len(t.Vocab) {
		return nil, nil, fmt.Errorf("%s: key %q: %d tokens, %d special ones among them, are not those of a vocabulary of %d", path, "config", t.Config.Size, n, len(t.Vocab))
	}
	for i := range n {
		text := fmt.Sprintf("<SPECIAL_%d>", i)
		if t.Special == nil && i < len(oldSpecials) {
			text = oldSpecials[i]
		}
		specials = append(specials, text)
	}
	for _, s := range t.Special {
		if s.Rank < 0 || s.Rank >= n {
			return nil, nil, fmt.Errorf("%s: key %q: token %.40q has the number %d, and there are %d", path, "special_tokens", s.Text, s.Rank, n)
		}
		specials[s.Rank] = s.Text
	}
	slices.SortStableFunc(t.Vocab, func(a, b struct {
		Rank  int    `json:"rank"`
		Bytes string `json:"token_bytes"`
	},
	) int {
		return cmp.Compare(a.Rank, b.Rank)
	})
	for i, v := range t.Vocab[:t.Config.Size-n] {
		token, err := base64.StdEncoding.DecodeString(v.Bytes)
		if err != nil || v.Rank != i || len(token) == 0 {
			return nil, nil, fmt.Errorf("%s: key %q: token %d is no token in base64 with that rank", path, "vocab", i)
		}
		tokens = append(tokens, string(token))
	}
	return specials, tokens, nil
}

// readTekkenVocabulary reads tekken.json. size is the number of embedding rows.
func readTekkenVocabulary(path string, size int, tok *tokenizerConfig) (*vocabulary, error) {
	specials, tokens, err := readTekken(path)
	if err != nil {
		return nil, err
	}
	if len(specials) > size {
		return nil, fmt.Errorf("%s: %d special tokens for %d rows of the embedding", path, len(specials), size)
	}
	v := &vocabulary{path: path, model: "gpt2", pre: "tekken", addBOS: new(true), addEOS: new(false)}
	for _, s := range specials {
		v.tokens, v.types = append(v.tokens, s), append(v.types, tokenControl)
	}
	for name, t := range map[string]*tokenText{"<s>": &tok.BOS, "</s>": &tok.EOS, "<unk>": &tok.UNK, "<pad>": &tok.PAD} {
		if t.text == "" && slices.Contains(specials, name) {
			t.text = name
		}
	}
	return v, v.enterRanks(tokens, size)
}
