package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// tokenizerJSON holds the parts of a tokenizer.json (Hugging Face tokenizers) that the converter reads.
type tokenizerJSON struct {
	Added         []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Model         struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
		ByteFallback bool            `json:"byte_fallback"`
		Unknown      string          `json:"unk_token"`
	} `json:"model"`
}

// component is a normalizer, pre-tokenizer or post-processor: the fields of all kinds, of which each has some.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`
	Pattern       struct {
		String string `json:"String"`
		Regex  string `json:"Regex"`
	} `json:"pattern"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	Prepend        string `json:"prepend"`
	Content        string `json:"content"`
	UseRegex       *bool  `json:"use_regex"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	PrependScheme  string `json:"prepend_scheme"`
	Split          *bool  `json:"split"`
	Individual     bool   `json:"individual_digits"`
	Single         []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
}

// parts flattens a Sequence; a nil component has none.
func (c *component) parts() []component {
	switch {
	case c == nil:
		return nil
	case c.Type != "Sequence":
		return []component{*c}
	}
	var out []component
	for _, list := range [][]component{c.Normalizers, c.PreTokenizers, c.Processors} {
		for i := range list {
			out = append(out, list[i].parts()...)
		}
	}
	return out
}

// preTokenizers maps a byte-level pre-tokenizer's description (see describe) to its GGUF name.
func preTokenizers() map[string]string {
	const (
		head   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
		tail   = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		llama3 = head + `\p{N}{1,3}` + tail
		qwen2  = head + `\p{N}` + tail
	)
	return map[string]string{
		"ByteLevel regex":                          "gpt-2",
		"Split " + llama3 + " Isolated, ByteLevel": "llama-bpe",
		"Split " + qwen2 + " Isolated, ByteLevel":  "qwen2",
		"Punctuation Contiguous, ByteLevel regex, Digits, Split [0-9][0-9][0-9] Isolated": "falcon",
	}
}

// describe writes a pre-tokenizer on one line, with what decides how it splits.
func describe(parts []component) string {
	var out []string
	for _, p := range parts {
		words := []string{p.Type}
		switch p.Type {
		case "ByteLevel":
			if or(p.UseRegex, true) {
				words = append(words, "regex")
			}
			if or(p.AddPrefixSpace, false) {
				words = append(words, "add_prefix_space")
			}
		case "Split":
			words = append(words, p.Pattern.Regex+p.Pattern.String, p.Behavior)
			if p.Invert {
				words = append(words, "inverted")
			}
		case "Punctuation":
			words = append(words, cmp.Or(p.Behavior, "Isolated"))
		case "Digits":
			if p.Individual {
				words = append(words, "individual")
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, ", ")
}

// readTokenizerJSON reads a BPE tokenizer.json: with byte fallback as SentencePiece, else as byte-level BPE.
func readTokenizerJSON(path string, size int, tok *tokenizerConfig, notes func(string)) (*vocabulary, error) {
	var j tokenizerJSON
	if err := checkpoint.ReadJSON(path, &j); err != nil {
		return nil, err
	}
	if j.Model.Type != "BPE" && j.Model.Type != "" {
		return nil, fmt.Errorf("%s: key %q: %q is not supported; BPE is", path, "model.type", j.Model.Type)
	}
	var ids map[string]int
	if err := checkpoint.DecodeJSON(path+": model.vocab", j.Model.Vocab, &ids); err != nil {
		return nil, err
	}
	merges, err := parseMerges(path, j.Model.Merges)
	if err != nil {
		return nil, err
	}
	v := &vocabulary{path: path, model: "gpt2"}
	if j.Model.ByteFallback {
		v.model, v.pre = "llama", "default"
	}
	if err := v.enter(ids, size); err != nil {
		return nil, err
	}
	if j.Model.ByteFallback {
		err = v.likeSentencePiece(&j, ids, merges, notes)
	} else {
		err = v.byteLevel(&j, merges)
	}
	if err != nil {
		return nil, err
	}
	v.templateFlags(j.PostProcessor, tok)
	return v, v.addTokens(j.Added, size, notes)
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

// byteLevel fills in a byte-level BPE.
func (v *vocabulary) byteLevel(j *tokenizerJSON, merges [][2]string) error {
	for _, n := range j.Normalizer.parts() {
		if n.Type != "NFC" {
			return fmt.Errorf("%s: key %q: %q is not supported; NFC is", v.path, "normalizer", n.Type)
		}
	}
	known := preTokenizers()
	desc := describe(j.PreTokenizer.parts())
	pre, ok := known[desc]
	if !ok {
		var names []string
		for _, name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("%s: key %q: %q is not supported; supported are those of %s", v.path, "pre_tokenizer", desc, strings.Join(names, ", "))
	}
	v.pre = pre
	v.setMerges(merges)
	return nil
}

func (v *vocabulary) setMerges(merges [][2]string) {
	v.merges = make([]string, len(merges))
	for i, m := range merges {
		v.merges[i] = m[0] + " " + m[1]
	}
}

// likeSentencePiece gives tokens the scores by which a SentencePiece encoder merges as the ranked merges do: such
// files are made from SentencePiece models by listing every split of every piece, best piece first.
func (v *vocabulary) likeSentencePiece(j *tokenizerJSON, ids map[string]int, merges [][2]string, notes func(string)) error {
	prefix := false
	for _, n := range j.Normalizer.parts() {
		switch {
		case n.Type == "Prepend" && n.Prepend == "▁":
			prefix = true
		case n.Type == "Replace" && n.Pattern.String == " " && n.Content == "▁":
		default:
			return fmt.Errorf("%s: key %q: %q is not supported beside byte fallback; spaces to ▁ are", v.path, "normalizer", n.Type)
		}
	}
	for _, p := range j.PreTokenizer.parts() {
		if p.Type != "Metaspace" {
			return fmt.Errorf("%s: key %q: %q is not supported beside byte fallback; Metaspace is", v.path, "pre_tokenizer", p.Type)
		}
		prefix = p.PrependScheme != "never" && or(p.AddPrefixSpace, true)
		if or(p.Split, true) {
			notes(fmt.Sprintf("%s: Metaspace splits before every space; runs of spaces may give other tokens", v.path))
		}
	}
	v.addSpacePrefix = &prefix
	for text, id := range ids {
		switch {
		case text == j.Model.Unknown:
			v.types[id], v.scores[id] = tokenUnknown, 0
		case isByteToken(text):
			v.types[id], v.scores[id] = tokenByte, 0
		default:
			v.scores[id] = scoreUnused // single characters: no merge makes them
		}
	}
	return v.scoreMerges(ids, merges, notes)
}

// scoreMerges scores every merged piece by how many pieces come before it, and notes where pairs say more than that.
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
		notes(fmt.Sprintf("%s: the merges are not those of a SentencePiece model; some words may give other tokens", v.path))
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
func (v *vocabulary) templateFlags(post *component, tok *tokenizerConfig) {
	for _, p := range post.parts() {
		if p.Type != "TemplateProcessing" || len(p.Single) == 0 {
			continue
		}
		is := func(i int, text string) *bool {
			s := p.Single[i].SpecialToken
			yes := s != nil && text != "" && s.ID == text
			return &yes
		}
		v.addBOS, v.addEOS = is(0, tok.BOS.text), is(len(p.Single)-1, tok.EOS.text)
		if len(p.Single) == 1 {
			v.addEOS = new(bool)
		}
		return
	}
	if v.model == "gpt2" {
		v.addBOS = new(bool)
	}
}

// readVocabJSON reads the older form of a byte-level BPE: vocab.json and merges.txt, whose pre-tokenizer follows from
// the tokenizer's class.
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
