package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// tokenizerJSON is a tokenizer.json (Hugging Face tokenizers): a definition, and the vocabulary that GGUF's keys hold.
type tokenizerJSON struct {
	tokenizer.Definition
	Model struct {
		tokenizer.ModelFacts
		Vocab  json.RawMessage `json:"vocab"`
		Merges json.RawMessage `json:"merges"`
	} `json:"model"`
}

// readTokenizerJSON reads a tokenizer.json. What it says goes into the keys that llama.cpp reads as far as these can
// say it, and whole into a definition, by which our engine encodes.
func readTokenizerJSON(path string, size int, tok *tokenizerConfig, notes func(string)) (*vocabulary, error) {
	var j tokenizerJSON
	data, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := tokenizer.CheckShape(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := checkpoint.DecodeJSON(path, data, &j); err != nil {
		return nil, err
	}
	if len(j.Model.Vocab) == 0 {
		return nil, fmt.Errorf("%s: key %q is missing; the file is damaged or no tokenizer's, download it again", path, "model.vocab")
	}
	v := &vocabulary{path: path}
	switch j.Model.Type {
	case "BPE", "":
		err = v.readBPE(&j, size, notes)
	case "Unigram":
		err = v.readUnigram(&j, size)
	case "WordPiece":
		err = v.readWordPiece(&j, size)
	case "WordLevel":
		notes(fmt.Sprintf("%s: llama.cpp has no tokenizer of whole words; PowerInfer alone will read the file", path))
		err = v.readWords(&j, size)
	default:
		err = fmt.Errorf("%s: key %q: %q is not supported; BPE, Unigram, WordPiece and WordLevel are", path, "model.type", j.Model.Type)
	}
	if err != nil {
		return nil, err
	}
	own := len(v.tokens)
	inModel := func(a tokenizer.AddedToken) bool { return int(a.ID) < own && v.tokens[a.ID] == v.written(a.Content) }
	d := j.Definition
	d.Model = j.Model.ModelFacts
	d.Added = nil
	for _, a := range j.Added {
		if a.ID < 0 || int(a.ID) >= size {
			continue
		}
		a.OnlyAdded = !inModel(a)
		d.Added = append(d.Added, a)
	}
	v.definition = &d
	if err := v.addTokens(j.Added, size, notes); err != nil {
		return nil, err
	}
	v.templateFlags(&d, tok)
	return v, v.addTemplateTokens(tok)
}

// addTemplateTokens enters the special tokens that tokenizer_config.json lists and tokenizer.json does not: Hugging
// Face's library does not look for them in a text, but chat templates write them.
func (v *vocabulary) addTemplateTokens(tok *tokenizerConfig) error {
	listed, err := tok.added("")
	if err != nil {
		return err
	}
	known := map[int32]bool{}
	for _, a := range v.definition.Added {
		known[a.ID] = true
	}
	for _, a := range listed {
		if !a.Special || known[a.ID] || a.ID < 0 || int(a.ID) >= len(v.tokens) {
			continue
		}
		// The model's vocabulary may have a placeholder there.
		if v.tokens[a.ID] == a.Content || !slices.Contains(v.tokens, a.Content) {
			v.tokens[a.ID] = a.Content
			a.Normalized, a.Template = false, true
			v.types[a.ID] = tokenControl
			v.definition.Added = append(v.definition.Added, a)
		}
	}
	return nil
}

// written returns how the GGUF file has a token that tokenizer.json writes as text.
func (v *vocabulary) written(text string) string {
	if v.model != "bert" {
		return text
	}
	if rest, ok := strings.CutPrefix(text, v.further); ok && rest != "" {
		return rest
	}
	return "▁" + text
}

// readBPE reads a byte-level BPE, or one of characters, which GGUF files have as SentencePiece vocabularies.
func (v *vocabulary) readBPE(j *tokenizerJSON, size int, notes func(string)) error {
	var ids map[string]int
	if err := checkpoint.DecodeJSON(v.path+": model.vocab", j.Model.Vocab, &ids); err != nil {
		return err
	}
	merges, err := parseMerges(v.path, j.Model.Merges)
	if err != nil {
		return err
	}
	v.model, v.pre = "llama", "default"
	byteLevel := func(c tokenizer.Component) bool { return c.Type == "ByteLevel" }
	if slices.ContainsFunc(j.PreTokenizer.Parts(), byteLevel) || slices.ContainsFunc(j.Normalizer.Parts(), byteLevel) {
		v.model = "gpt2"
	}
	if err := v.enter(ids, size); err != nil {
		return err
	}
	if v.setMerges(merges) {
		j.Model.ModelFacts.Merges = merges
	}
	if v.model == "llama" {
		return v.likeSentencePiece(j, ids, merges, notes)
	}
	pre, ok := tokenizer.PreTokenizerName(j.PreTokenizer, j.Model.IgnoreMerges)
	if v.pre = pre; !ok {
		notes(fmt.Sprintf("%s: no name in llama.cpp says how this pre_tokenizer splits text; PowerInfer follows it, llama.cpp will split otherwise", v.path))
	}
	return nil
}

// readUnigram reads a vocabulary of pieces with their log probabilities.
func (v *vocabulary) readUnigram(j *tokenizerJSON, size int) error {
	var raw [][2]json.RawMessage
	if err := checkpoint.DecodeJSON(v.path+": model.vocab", j.Model.Vocab, &raw); err != nil {
		return err
	}
	if len(raw) > size {
		return fmt.Errorf("%s: %d pieces for %d rows of the embedding (config.json: vocab_size)", v.path, len(raw), size)
	}
	exact := true
	var scores []float64
	for i, r := range raw {
		var text string
		var score float64
		if json.Unmarshal(r[0], &text) != nil || json.Unmarshal(r[1], &score) != nil || math.IsInf(float64(float32(score)), 0) {
			return fmt.Errorf("%s: key %q: entry %d is not a text with a score", v.path, "model.vocab", i)
		}
		v.tokens, v.types, v.scores = append(v.tokens, text), append(v.types, tokenNormal), append(v.scores, float32(score))
		scores = append(scores, score)
		exact = exact && float64(float32(score)) == score
	}
	v.model, v.pre = "t5", "default"
	if id := j.Model.UnknownID; id != nil && *id >= 0 && int(*id) < len(v.tokens) {
		v.types[*id], v.unknown = tokenUnknown, int(*id)+1
	}
	if !exact {
		v.full = scores
	}
	v.sentencePieceFlags(j)
	return nil
}

// sentencePieceFlags sets llama.cpp's keys for how the components of a Unigram model change spaces and characters.
func (v *vocabulary) sentencePieceFlags(j *tokenizerJSON) {
	prefix := false
	for _, n := range j.Normalizer.Parts() {
		switch {
		case n.Type == "Precompiled":
			v.charsmap = n.Charsmap
		case n.Type == "Replace" && n.Pattern != nil && n.Pattern.Regex != nil && strings.Contains(*n.Pattern.Regex, "{2,}"):
			v.squeeze = true
		}
	}
	for _, p := range j.PreTokenizer.Parts() {
		switch p.Type {
		case "Metaspace":
			prefix = p.PrependScheme != "never" && or(p.AddPrefixSpace, true)
		case "WhitespaceSplit":
			v.squeeze = true
		}
	}
	v.addSpacePrefix = &prefix
}

// readWordPiece reads BERT's vocabulary. GGUF files mark tokens that begin a word, not tokens that continue one.
func (v *vocabulary) readWordPiece(j *tokenizerJSON, size int) error {
	var ids map[string]int
	if err := checkpoint.DecodeJSON(v.path+": model.vocab", j.Model.Vocab, &ids); err != nil {
		return err
	}
	v.model, v.pre, v.further = "bert", "default", j.Model.Prefix
	if err := v.enter(ids, size); err != nil {
		return err
	}
	special := map[string]bool{}
	for _, a := range j.Added {
		special[a.Content] = true
	}
	for text, id := range ids {
		switch {
		case j.Model.Unknown != nil && text == *j.Model.Unknown:
			v.types[id], v.unknown = tokenUnknown, id+1
		case !special[text]:
			v.tokens[id] = v.written(text)
		}
	}
	for _, n := range j.Normalizer.Parts() {
		switch n.Type {
		case "BertNormalizer":
			lower := or(n.Lowercase, true)
			v.lowercase, v.stripAccents = lower, or(n.StripAccents, lower)
		case "Lowercase":
			v.lowercase = true
		case "StripAccents":
			v.stripAccents = true
		}
	}
	return nil
}

// readWords reads a vocabulary of whole words. llama.cpp has no name for it.
func (v *vocabulary) readWords(j *tokenizerJSON, size int) error {
	var ids map[string]int
	if err := checkpoint.DecodeJSON(v.path+": model.vocab", j.Model.Vocab, &ids); err != nil {
		return err
	}
	v.model, v.pre = "wordlevel", "default"
	if err := v.enter(ids, size); err != nil {
		return err
	}
	if name := j.Model.Unknown; name != nil {
		if id, ok := ids[*name]; ok {
			v.types[id], v.unknown = tokenUnknown, id+1
		}
	}
	return nil
}

// enter places a vocabulary's tokens by id; size is the number of embedding rows.
func (v *vocabulary) enter(ids map[string]int, size int) error {
	top := -1
	texts := slices.Sorted(maps.Keys(ids)) // so that an error names the same token every time
	for _, text := range texts {
		id := ids[text]
		if id < 0 || id >= size {
			return fmt.Errorf("%s: token %q: id %d is outside the %d rows of the embedding (config.json: vocab_size)", v.path, text, id, size)
		}
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s: token %q is not UTF-8", v.path, text)
		}
		top = max(top, id)
	}
	v.fill(top + 1)
	taken := make([]bool, top+1)
	for _, text := range texts {
		id := ids[text]
		if taken[id] {
			return fmt.Errorf("%s: two tokens have the id %d", v.path, id)
		}
		taken[id] = true
		v.tokens[id], v.types[id] = text, tokenNormal
	}
	return nil
}

// parseMerges reads merges written as "a b" or as ["a", "b"].
func parseMerges(path string, raw json.RawMessage) ([][2]string, error) {
	var lines []string
	var pairs [][]string
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, fmt.Errorf("%s: key %q is missing", path, "model.merges")
	}
	if json.Unmarshal(raw, &lines) == nil {
		for _, line := range lines {
			pairs = append(pairs, strings.Split(line, " "))
		}
	} else if err := checkpoint.DecodeJSON(path+": model.merges", raw, &pairs); err != nil {
		return nil, err
	}
	out := make([][2]string, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 || p[0] == "" || p[1] == "" {
			return nil, fmt.Errorf("%s: key %q: merge %d %q is not a pair", path, "model.merges", i, p)
		}
		out[i] = [2]string{p[0], p[1]}
	}
	return out, nil
}

// setMerges writes merges in GGUF's form. It reports whether that loses the boundary between parts, because a part has
// a space.
func (v *vocabulary) setMerges(merges [][2]string) (lost bool) {
	v.merges = make([]string, len(merges))
	for i, m := range merges {
		lost = lost || strings.Contains(m[0]+m[1], " ")
		v.merges[i] = strings.ReplaceAll(m[0], " ", "\u0120") + " " + strings.ReplaceAll(m[1], " ", "\u0120")
	}
	return lost
}

// likeSentencePiece gives tokens the scores by which a SentencePiece encoder merges as the ranked merges do: such
// files are made from SentencePiece models by listing every split of every piece, best piece first.
func (v *vocabulary) likeSentencePiece(j *tokenizerJSON, ids map[string]int, merges [][2]string, notes func(string)) error {
	prefix, other := false, ""
	for _, n := range j.Normalizer.Parts() {
		switch {
		case n.Type == "Prepend" && n.Prepend == "▁":
			prefix = true
		case n.Type == "Replace" && n.Pattern != nil && n.Pattern.String != nil && *n.Pattern.String == " " && n.Content == "▁":
		default:
			other = n.Type
		}
	}
	for _, p := range j.PreTokenizer.Parts() {
		switch {
		case p.Type == "Metaspace":
			prefix = p.PrependScheme != "never" && or(p.AddPrefixSpace, true)
		case p.Type == "Split" && p.Pattern != nil && p.Pattern.String != nil && *p.Pattern.String == " ": // spaces are ▁ by then
		default:
			other = p.Type
		}
	}
	if other != "" {
		notes(fmt.Sprintf("%s: %s has no key in llama.cpp; PowerInfer follows it, llama.cpp will give other tokens for some texts", v.path, other))
	}
	v.addSpacePrefix = &prefix
	for text, id := range ids {
		switch {
		case j.Model.Unknown != nil && text == *j.Model.Unknown:
			v.types[id], v.scores[id] = tokenUnknown, 0
		case isByteToken(text):
			v.types[id], v.scores[id] = tokenByte, 0
		default:
			v.scores[id] = scoreUnused // single characters: no merge makes them
		}
	}
	return v.scoreMerges(ids, merges, notes)
}

// scoreMerges scores every merged piece by the number of pieces before it. It notes when the order of pairs has more
// information than these scores.
func (v *vocabulary) scoreMerges(ids map[string]int, merges [][2]string, notes func(string)) error {
	rank := make(map[string]int, len(ids))
	last, grouped := "", true
	for i, m := range merges {
		text := m[0] + m[1]
		id, ok := ids[text]
		if !ok {
			return fmt.Errorf("%s: key %q: merge %d makes %q, which is no token", v.path, "model.merges", i, text)
		}
		if _, seen := rank[text]; !seen {
			v.scores[id] = float32(-len(rank))
			rank[text] = len(rank)
		} else if text != last {
			grouped = false
		}
		last = text
	}
	if !grouped {
		notes(fmt.Sprintf("%s: the merges are not those of a SentencePiece model; PowerInfer follows them, llama.cpp may give other tokens for some words", v.path))
	}
	return nil
}

// isByteToken reports whether text is <0x00> … <0xFF>.
func isByteToken(text string) bool {
	var b byte
	n, err := fmt.Sscanf(text, "<0x%02X>", &b)
	return n == 1 && err == nil && text == fmt.Sprintf("<0x%02X>", b)
}

// templateFlags reads from the post-processor whether a text begins with BOS and ends with EOS.
func (v *vocabulary) templateFlags(d *tokenizer.Definition, tok *tokenizerConfig) {
	before, after, err := d.Ends()
	if err != nil { // New will report it
		return
	}
	// What stands at an end is BOS or EOS, unless tokenizer_config.json names another.
	is := func(list []int32, i int, name *tokenText) *bool {
		yes := false
		if i >= 0 && i < len(list) && list[i] >= 0 && int(list[i]) < len(v.tokens) {
			text := v.tokens[list[i]]
			if name.text == "" {
				name.text = text
			}
			yes = name.text == text
		}
		return &yes
	}
	v.addBOS, v.addEOS = is(before, 0, &tok.BOS), is(after, len(after)-1, &tok.EOS)
	if n := d.Separators(); n > 0 {
		two := n > 1
		v.addSEP = &two
	}
	if d.PostProcessor == nil && strings.HasPrefix(tok.Class, "LlamaTokenizer") {
		*v.addBOS = or(tok.AddBOS, true) // by the class, not the file
	}
}

// readVocabJSON reads the older form of a byte-level BPE: vocab.json and merges.txt. The tokenizer's class determines
// the pre-tokenizer.
func readVocabJSON(path, mergesPath string, c *config, tok *tokenizerConfig) (*vocabulary, error) {
	pre := map[string]string{
		"GPT2Tokenizer": "gpt-2", "GPT2TokenizerFast": "gpt-2", "Qwen2Tokenizer": "qwen2", "Qwen2TokenizerFast": "qwen2",
	}[tok.Class]
	if pre == "" && tok.Class == "" && slices.Equal(c.Architectures, []string{"OPTForCausalLM"}) {
		pre = "gpt-2"
	}
	if pre == "" {
		return nil, fmt.Errorf("%s: key %q: %q is not supported without tokenizer.json; GPT2Tokenizer and Qwen2Tokenizer are", tok.path, "tokenizer_class", tok.Class)
	}
	var ids map[string]int
	if err := checkpoint.ReadJSON(path, &ids); err != nil {
		return nil, err
	}
	text, err := checkpoint.ReadFile(mergesPath)
	if err != nil {
		return nil, err
	}
	v := &vocabulary{path: path, model: "gpt2", pre: pre}
	if err := v.enter(ids, c.Vocab); err != nil {
		return nil, err
	}
	var merges [][2]string
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || i == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok || a == "" || b == "" || strings.Contains(b, " ") {
			return nil, fmt.Errorf("%s: line %d: %q is not a pair", mergesPath, i+1, line)
		}
		merges = append(merges, [2]string{a, b})
	}
	v.setMerges(merges)
	added, err := tok.added(filepath.Join(filepath.Dir(path), "added_tokens.json"))
	if err != nil {
		return nil, err
	}
	return v, v.addTokens(added, c.Vocab, func(string) {})
}
