package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Token types as GGUF and SentencePiece number them.
const (
	tokenNormal  int32 = 1
	tokenUnknown int32 = 2
	tokenControl int32 = 3
	tokenUser    int32 = 4
	tokenUnused  int32 = 5
	tokenByte    int32 = 6
)

// Scores of tokens that merging never makes, as in llama.cpp's converter.
const (
	scoreAdded  = -1000
	scoreUnused = -10000
)

// vocabulary is the tokenizer as GGUF describes it.
type vocabulary struct {
	path   string // the file it was read from, for errors
	model  string // tokenizer.ggml.model: "llama" (SentencePiece), "gpt2" (byte-level BPE), "t5" (Unigram), "bert" (WordPiece), "plamo2" or "rwkv"
	pre    string // pre-tokenizer
	tokens []string
	scores []float32 // llama, t5 and plamo2
	types  []int32
	merges []string // gpt2; llama's scores are made from them, too

	definition *tokenizer.Definition // the rest of tokenizer.json; nil without one
	unknown    int                   // the unknown token's id plus 1, if the model itself names it
	full       []float64             // t5: scores that are not float32
	further    string                // bert: tokenizer.json's prefix of tokens that continue a word
	charsmap   []byte                // t5: precompiled normalization

	lowercase, stripAccents bool // bert

	ends           []int32        // tokens that end a generation, the text's end first
	ids            map[string]int // special token ids by GGUF's name: "bos" and so on
	addBOS, addEOS *bool
	addSEP         *bool // between two texts there are two end tokens; nil: not stated
	addSpacePrefix *bool
	squeeze        bool
	templates      map[string]string // chat templates by name; "default" is the usual one
}

// readVocabulary reads the folder's tokenizer: a usable tokenizer.model, else tokenizer.json, else vocab.json with
// merges.txt, else tokenizer.jsonl, else tekken.json, else tiktoken.model, else RWKV's World vocabulary. gen may name
// end tokens.
func readVocabulary(dir string, c *config, gen generation, notes func(string)) (*vocabulary, error) {
	tok, err := readTokenizerConfig(dir)
	if err != nil {
		return nil, err
	}
	v, err := readTokens(dir, c, tok, notes)
	if err != nil {
		return nil, err
	}
	v.fill(c.Vocab)
	v.findSpecials(tok, c, gen, notes)
	if v.model == "rwkv" {
		v.endWorld()
	}
	if tok.AddBOS != nil {
		v.addBOS = tok.AddBOS
	}
	if tok.AddEOS != nil {
		v.addEOS = tok.AddEOS
	}
	if v.model == "llama" && v.definition == nil && tok.AddPrefixSpace != nil {
		v.addSpacePrefix = tok.AddPrefixSpace
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	v.templates, err = tok.chatTemplates(dir)
	if v.model == "rwkv" && v.templates["default"] == "" {
		v.templates = map[string]string{"default": "rwkv-world"} // the name of a form that llama.cpp knows, and so do we
	}
	return v, err
}

// check builds the tokenizer once, so that an unusable vocabulary is refused now.
func (v *vocabulary) check() error {
	t := tokenizer.Vocab{
		Model: v.model, Pre: v.pre, Tokens: v.tokens, Scores: v.scores, Types: v.types, Merges: v.merges, Definition: v.definition,
		BOS: -1, EOS: -1, UNK: -1, EOT: -1, PAD: -1, SEP: -1,
		AddSpacePrefix: or(v.addSpacePrefix, v.model == "llama"),
		Normalization:  tokenizer.Normalization{Charsmap: v.charsmap, RemoveExtraWhitespaces: v.squeeze},
	}
	if id, ok := v.ids["unknown"]; ok {
		t.UNK = int32(id)
	}
	if _, err := tokenizer.New(t); err != nil {
		return fmt.Errorf("%s: %w", v.path, err)
	}
	return nil
}

func readTokens(dir string, c *config, tok *tokenizerConfig, notes func(string)) (*vocabulary, error) {
	spm, hf := filepath.Join(dir, "tokenizer.model"), filepath.Join(dir, "tokenizer.json")
	if xlm := filepath.Join(dir, "sentencepiece.bpe.model"); !checkpoint.Exists(spm) && checkpoint.Exists(xlm) {
		spm = xlm
	}
	if t5 := filepath.Join(dir, "spiece.model"); !checkpoint.Exists(spm) && checkpoint.Exists(t5) {
		spm = t5
	}
	if versions, _ := filepath.Glob(spm + ".v*"); !checkpoint.Exists(spm) && len(versions) > 0 { // as Mistral names it
		spm = slices.Max(versions)
	}
	if checkpoint.Exists(spm) {
		v, err := readSentencePiece(spm, c.Vocab, tok, notes)
		if checkpoint.Exists(hf) && (err == nil && v.model == "t5" || err != nil && !errors.Is(err, errNotSentencePiece)) {
			return readTokenizerJSON(hf, c.Vocab, tok, notes) // it says more than a Unigram model
		}
		if err == nil && checkpoint.Exists(hf) {
			v.complete(hf, c.Vocab, tok)
		}
		if err == nil || !errors.Is(err, errNotSentencePiece) || !checkpoint.Exists(hf) {
			return v, err
		}
		notes(fmt.Sprintf("%s: not a SentencePiece model; tokenizer.json is used", spm))
	}
	if checkpoint.Exists(hf) {
		return readTokenizerJSON(hf, c.Vocab, tok, notes)
	}
	if vocab := filepath.Join(dir, "vocab.json"); checkpoint.Exists(vocab) {
		return readVocabJSON(vocab, filepath.Join(dir, "merges.txt"), c, tok)
	}
	if list := filepath.Join(dir, "tokenizer.jsonl"); checkpoint.Exists(list) {
		return readTokenList(list, c.Vocab)
	}
	if own := filepath.Join(dir, tekkenFile); checkpoint.Exists(own) {
		return readTekkenVocabulary(own, c.Vocab, tok)
	}
	if ranks := filepath.Join(dir, tiktokenFile); checkpoint.Exists(ranks) {
		return readTiktoken(ranks, c.Vocab, tok, notes)
	}
	if world := filepath.Join(dir, worldFile); checkpoint.Exists(world) {
		return readWorld(world, c.Vocab)
	}
	return nil, fmt.Errorf("%s: no tokenizer.model, tokenizer.json, tokenizer.jsonl or vocab.json in it; download the model's folder with all its files", dir)
}

// readSentencePiece reads a tokenizer.model and the added tokens of its folder. size is the number of embedding rows.
func readSentencePiece(path string, size int, tok *tokenizerConfig, notes func(string)) (*vocabulary, error) {
	data, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := parseSentencePiece(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.kind != modelBPE && m.kind != modelUnigram {
		return nil, fmt.Errorf("%s: a SentencePiece model of words or characters; only BPE and Unigram are supported: put a tokenizer.json beside it", path)
	}
	if len(m.pieces) > size {
		return nil, fmt.Errorf("%s: %d pieces for %d rows of the embedding (config.json: vocab_size)", path, len(m.pieces), size)
	}
	v := &vocabulary{path: path, model: "llama", pre: "default", squeeze: m.squeeze}
	if m.kind == modelUnigram {
		if err := v.asUnigram(m, tok); err != nil {
			return nil, err
		}
	}
	for _, p := range m.pieces {
		v.tokens = append(v.tokens, p.text)
		v.scores = append(v.scores, p.score)
		v.types = append(v.types, p.kind)
	}
	if !m.dummyPrefix || m.kind == modelUnigram {
		v.addSpacePrefix = &m.dummyPrefix
	}
	added, err := tok.added(filepath.Join(filepath.Dir(path), "added_tokens.json"))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(tok.Class, "T5Tokenizer") && len(added) == 0 {
		added = sentinels(len(m.pieces), size)
	}
	return v, v.addTokens(added, size, notes)
}

// asUnigram reads a Unigram model's settings, and orders its pieces as the tokenizer's class does.
func (v *vocabulary) asUnigram(m *sentencePiece, tok *tokenizerConfig) error {
	v.model, v.charsmap = "t5", m.charsmap
	yes, no := true, false
	switch class := strings.TrimSuffix(tok.Class, "Fast"); class {
	case "XLMRobertaTokenizer": // fairseq's order, in which <pad> comes second
		const first = 3 // pieces before it are <unk>, <s> and </s>
		if len(m.pieces) < first {
			return fmt.Errorf("%s: %d pieces are too few for %s", v.path, len(m.pieces), tok.Class)
		}
		m.pieces = slices.Concat([]piece{
			{"<s>", 0, tokenControl}, {"<pad>", 0, tokenControl}, {"</s>", 0, tokenControl}, {"<unk>", 0, tokenUnknown},
		}, m.pieces[first:], []piece{{"<mask>", 0, tokenControl}})
		v.addBOS, v.addEOS = &yes, &yes
	case "CamembertTokenizer", "MBartTokenizer", "MBart50Tokenizer", "NllbTokenizer", "BarthezTokenizer", "XGLMTokenizer", "PegasusTokenizer", "M2M100Tokenizer":
		return fmt.Errorf("%s: %s numbers the pieces in an order of its own: put the model's tokenizer.json beside it", v.path, tok.Class)
	case "AlbertTokenizer":
		v.addBOS, v.addEOS = &yes, &yes
	default:
		v.addBOS, v.addEOS = &no, &yes
	}
	for id, p := range m.pieces {
		if p.kind == tokenUnknown {
			v.unknown = id + 1
		}
	}
	return nil
}

// sentinels returns T5's tokens <extra_id_0> and so on, in reverse order, to follow n pieces.
func sentinels(n, size int) (added []tokenizer.AddedToken) {
	const usual = 100
	for i := range min(usual, size-n) {
		added = append(added, tokenizer.AddedToken{ID: int32(n + i), Content: fmt.Sprintf("<extra_id_%d>", usual-1-i), Special: true})
	}
	return added
}

// complete takes the definition from a tokenizer.json in the folder of a tokenizer.model, if both have the same tokens.
func (v *vocabulary) complete(path string, size int, tok *tokenizerConfig) {
	j, err := readTokenizerJSON(path, size, tok, func(string) {})
	if err != nil || j.model != v.model || len(j.tokens) > len(v.tokens) {
		return
	}
	for id, text := range j.tokens {
		if v.tokens[id] != text && j.types[id] != tokenUnused {
			return
		}
	}
	v.definition, v.merges, v.addBOS, v.addEOS, v.addSEP = j.definition, j.merges, j.addBOS, j.addEOS, j.addSEP
}

// addTokens enters added tokens; those beyond the embedding's rows are left out, as nothing could embed them.
func (v *vocabulary) addTokens(added []tokenizer.AddedToken, size int, notes func(string)) error {
	for _, a := range added {
		if a.ID < 0 || int(a.ID) >= size {
			notes(fmt.Sprintf("%s: added token %q is left out: id %d is outside the %d rows of the embedding", v.path, a.Content, a.ID, size))
			continue
		}
		v.fill(int(a.ID) + 1)
		if v.tokens[a.ID] == a.Content && v.types[a.ID] != tokenNormal && v.types[a.ID] != tokenUser && v.types[a.ID] != tokenUnused {
			continue // the model itself already says what kind of special token it is
		}
		kind, content := tokenControl, a.Content
		if !a.Special && !looksSpecial(content) {
			kind, content = tokenUser, strings.ReplaceAll(content, "▁", " ")
		}
		if v.scores != nil && (v.model != "t5" || v.tokens[a.ID] != a.Content) { // a Unigram model's own token keeps its score
			v.scores[a.ID] = scoreAdded
		}
		v.tokens[a.ID], v.types[a.ID] = content, kind
	}
	return nil
}

// looksSpecial: some folders forget to mark their control tokens.
func looksSpecial(s string) bool {
	return s == "<pad>" || strings.HasPrefix(s, "<|") && strings.HasSuffix(s, "|>") || strings.HasPrefix(s, "<｜") && strings.HasSuffix(s, "｜>")
}

// fill pads the vocabulary to n tokens with unused ones; embeddings are often padded so.
func (v *vocabulary) fill(n int) {
	for i := len(v.tokens); i < n; i++ {
		v.tokens = append(v.tokens, fmt.Sprintf("[PAD%d]", i))
		v.types = append(v.types, tokenUnused)
		if v.model == "llama" || v.model == "t5" || v.model == "plamo2" {
			v.scores = append(v.scores, scoreUnused)
		}
	}
}

// findSpecials resolves special tokens: tokenizer_config.json names them by text, config.json and generation_config.json by id.
func (v *vocabulary) findSpecials(tok *tokenizerConfig, c *config, gen generation, notes func(string)) {
	v.ids = map[string]int{}
	byText := func(kind, text string) {
		if id := slices.Index(v.tokens, text); text != "" && id >= 0 {
			v.ids[kind] = id
			if v.types[id] == tokenNormal {
				v.types[id] = tokenControl
			}
		}
	}
	byID := func(file, kind string, raw json.RawMessage) {
		for _, id := range tokenIDs(raw) {
			if id >= len(v.tokens) {
				notes(fmt.Sprintf("%s: %s_token_id %d is beyond the vocabulary of %d and is left out", file, kind, id, len(v.tokens)))
				continue
			}
			if _, known := v.ids[kind]; !known {
				v.ids[kind] = id
			}
		}
	}
	byText("bos", tok.BOS.text)
	byText("eos", tok.EOS.text)
	byText("unknown", tok.UNK.text)
	byText("padding", tok.PAD.text)
	byText("seperator", tok.SEP.text) // llama.cpp's spelling
	byText("cls", tok.CLS.text)
	byText("mask", tok.MASK.text)
	if v.unknown > 0 {
		v.ids["unknown"] = v.unknown - 1
	}
	if v.model == "bert" {
		for kind, of := range map[string]string{"bos": "cls", "eos": "seperator"} {
			if id, ok := v.ids[of]; ok {
				v.ids[kind] = id
			}
		}
	}
	byID("config.json", "bos", c.BOS)
	byID("config.json", "eos", c.EOS)
	byID("config.json", "padding", c.Padding)
	byID("generation_config.json", "eos", gen["eos_token_id"])
	if _, ok := v.ids["unknown"]; !ok && v.model == "llama" {
		if id := slices.Index(v.types, tokenUnknown); id >= 0 {
			v.ids["unknown"] = id
		}
	}
	v.findEnds(c, gen)
}

// findEnds finds all tokens that end a generation according to the folder, and those that end a turn by name. llama.cpp
// reads three ids: of the end of a text, of a turn and of a message.
func (v *vocabulary) findEnds(c *config, gen generation) {
	add := func(id int) {
		if !slices.Contains(v.ends, int32(id)) {
			v.ends = append(v.ends, int32(id))
		}
	}
	if id, ok := v.ids["eos"]; ok {
		add(id)
	}
	control := func(id int) bool { return v.types[id] == tokenControl || v.types[id] == tokenUser }
	for _, text := range []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|plamo:op|>"} {
		id := slices.Index(v.tokens, text)
		if id < 0 || !control(id) || text == "<|end|>" && slices.Contains(v.tokens, "<|call|>") { // there it ends a thought
			continue
		}
		add(id)
		break
	}
	for _, id := range tokenIDs(gen["eos_token_id"]) {
		if id < len(v.tokens) {
			add(id)
		}
	}
	for _, id := range append(tokenIDs(c.EOS), tokenIDs(c.outerEOS)...) {
		if id < len(v.tokens) && control(id) { // some say the id that another family has
			add(id)
		}
	}
	kinds := []string{"eos", "eot", "eom"}
	if _, ok := v.ids["eos"]; !ok {
		kinds = kinds[1:]
	}
	for i, kind := range kinds[:min(len(kinds), len(v.ends))] {
		v.ids[kind] = int(v.ends[i])
	}
}

// keys returns the tokenizer's metadata.
func (v *vocabulary) keys() []gguf.KV {
	var keys []gguf.KV
	add := func(key string, value any) { keys = append(keys, gguf.KV{Key: key, Value: value}) }
	add("tokenizer.ggml.model", v.model)
	add("tokenizer.ggml.pre", v.pre)
	add("tokenizer.ggml.tokens", v.tokens)
	if v.scores != nil {
		add("tokenizer.ggml.scores", v.scores)
	}
	add("tokenizer.ggml.token_type", v.types)
	if v.merges != nil {
		add("tokenizer.ggml.merges", v.merges)
	}
	for _, kind := range []string{"bos", "eos", "unknown", "padding", "eot", "eom", "seperator", "cls", "mask"} {
		if id, ok := v.ids[kind]; ok {
			add("tokenizer.ggml."+kind+"_token_id", uint32(id))
		}
	}
	if len(v.ends) > 1 {
		add("tokenizer.ggml.eos_token_ids", v.ends)
	}
	for _, flag := range []struct {
		key   string
		value *bool
	}{{"add_bos_token", v.addBOS}, {"add_eos_token", v.addEOS}, {"add_sep_token", v.addSEP}, {"add_space_prefix", v.addSpacePrefix}} {
		if flag.value != nil {
			add("tokenizer.ggml."+flag.key, *flag.value)
		}
	}
	if v.squeeze {
		add("tokenizer.ggml.remove_extra_whitespaces", true)
	}
	if v.charsmap != nil {
		add("tokenizer.ggml.precompiled_charsmap", v.charsmap)
	}
	if v.model == "bert" {
		add("tokenizer.ggml.normalizer.lowercase", v.lowercase)
		add("tokenizer.ggml.normalizer.strip_accents", v.stripAccents)
	}
	if v.definition != nil {
		text, err := json.Marshal(v.definition)
		if err != nil {
			panic(err) // strings, numbers and lists only
		}
		add(tokenizer.DefinitionKey, string(text))
	}
	var named []string
	for _, name := range slices.Sorted(maps.Keys(v.templates)) {
		if name == "default" {
			add("tokenizer.chat_template", v.templates[name])
			continue
		}
		if slices.Contains(named, keyPart(name)) { // two names that differ in other characters
			continue
		}
		named = append(named, keyPart(name))
		add("tokenizer.chat_template."+keyPart(name), v.templates[name])
	}
	if named != nil {
		add("tokenizer.chat_templates", named)
	}
	return keys
}

// keyPart returns a template's name as it stands in a key: as llama.cpp's converter has it, with letters and digits.
func keyPart(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, name)
}

// parseID reads a token id from a JSON object's key.
func parseID(path, key string) (int32, error) {
	id, err := strconv.ParseInt(key, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: key %q: %q is not a token id", path, "added_tokens_decoder", key)
	}
	return int32(id), nil
}
