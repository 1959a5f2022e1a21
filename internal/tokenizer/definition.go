package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Definition is a tokenizer.json (Hugging Face tokenizers) without what GGUF's own keys hold: the vocabulary, and
// merges if they can be written there.
type Definition struct {
	Added         list[AddedToken] `json:"added_tokens,omitempty"`
	Normalizer    *Component       `json:"normalizer,omitempty"`
	PreTokenizer  *Component       `json:"pre_tokenizer,omitempty"`
	PostProcessor *Component       `json:"post_processor,omitempty"`
	Decoder       *Component       `json:"decoder,omitempty"`
	Model         ModelFacts       `json:"model"`
}

// AddedToken is a token that the text is searched for before it is split.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word,omitempty"`
	LStrip     bool   `json:"lstrip,omitempty"`
	RStrip     bool   `json:"rstrip,omitempty"`
	Normalized bool   `json:"normalized,omitempty"` // searched for after the normalizer, not before it
	Special    bool   `json:"special,omitempty"`
	OnlyAdded  bool   `json:"only_added,omitempty"` // not in the model's own vocabulary; ours, not Hugging Face's
	Template   bool   `json:"template,omitempty"`   // only tokenizer_config.json names it, so only EncodeTemplate uses it; our own key
}

// ModelFacts is the model section of a tokenizer.json without the vocabulary.
type ModelFacts struct {
	Type         string      `json:"type,omitempty"` // BPE, Unigram or WordPiece
	Unknown      *string     `json:"unk_token,omitempty"`
	UnknownID    *int32      `json:"unk_id,omitempty"` // Unigram
	Prefix       string      `json:"continuing_subword_prefix,omitempty"`
	Suffix       string      `json:"end_of_word_suffix,omitempty"`
	FuseUnknown  bool        `json:"fuse_unk,omitempty"`
	ByteFallback bool        `json:"byte_fallback,omitempty"`
	IgnoreMerges bool        `json:"ignore_merges,omitempty"`
	LongestWord  *int        `json:"max_input_chars_per_word,omitempty"` // WordPiece
	Merges       [][2]string `json:"merges,omitempty"`                   // only those that tokenizer.ggml.merges cannot write
	Scores       []float64   `json:"scores,omitempty"`                   // of Unigram, if they are no float32
}

// Component is a normalizer, pre-tokenizer, post-processor or decoder: the fields of all kinds; each kind has some.
type Component struct {
	Type           string                 `json:"type"`
	Normalizers    list[Component]        `json:"normalizers,omitempty"`
	PreTokenizers  list[Component]        `json:"pretokenizers,omitempty"`
	Processors     list[Component]        `json:"processors,omitempty"`
	Decoders       list[Component]        `json:"decoders,omitempty"`
	Pattern        *Pattern               `json:"pattern,omitempty"`
	Behavior       string                 `json:"behavior,omitempty"`
	Invert         bool                   `json:"invert,omitempty"`
	Prepend        string                 `json:"prepend,omitempty"`
	Content        string                 `json:"content,omitempty"`
	Start          int                    `json:"start,omitempty"`
	Stop           int                    `json:"stop,omitempty"`
	UseRegex       *bool                  `json:"use_regex,omitempty"`
	AddPrefixSpace *bool                  `json:"add_prefix_space,omitempty"`
	PrependScheme  string                 `json:"prepend_scheme,omitempty"`
	Replacement    string                 `json:"replacement,omitempty"`
	Split          *bool                  `json:"split,omitempty"`
	Individual     bool                   `json:"individual_digits,omitempty"`
	Delimiter      string                 `json:"delimiter,omitempty"`
	Length         int                    `json:"length,omitempty"`
	StripLeft      *bool                  `json:"strip_left,omitempty"`
	StripRight     *bool                  `json:"strip_right,omitempty"`
	CleanText      *bool                  `json:"clean_text,omitempty"`
	Chinese        *bool                  `json:"handle_chinese_chars,omitempty"`
	StripAccents   *bool                  `json:"strip_accents,omitempty"`
	Lowercase      *bool                  `json:"lowercase,omitempty"`
	Charsmap       []byte                 `json:"precompiled_charsmap,omitempty"` // base64
	Prefix         string                 `json:"prefix,omitempty"`
	Suffix         string                 `json:"suffix,omitempty"`
	Cleanup        *bool                  `json:"cleanup,omitempty"`
	Single         []TemplatePart         `json:"single,omitempty"`
	Pair           []TemplatePart         `json:"pair,omitempty"`
	SpecialTokens  map[string]TemplateIDs `json:"special_tokens,omitempty"`
	CLS            *NamedToken            `json:"cls,omitempty"`
	SEP            *NamedToken            `json:"sep,omitempty"`
}

// Pattern is what a Split or Replace searches for: exactly one of the two.
type Pattern struct {
	String *string `json:"String,omitempty"`
	Regex  *string `json:"Regex,omitempty"`
}

// TemplatePart is a special token, or the place of the text.
type TemplatePart struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken,omitempty"`
	Sequence *struct {
		ID   string `json:"id"`
		Type int32  `json:"type_id,omitempty"`
	} `json:"Sequence,omitempty"`
}

// TemplateIDs are the tokens that a name in a template stands for.
type TemplateIDs struct {
	IDs []int32 `json:"ids"`
}

// NamedToken is written as a pair: text, id.
type NamedToken struct {
	Text string
	ID   int32
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *NamedToken) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[2]any{&n.Text, &n.ID})
}

// MarshalJSON implements json.Marshaler.
func (n NamedToken) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{n.Text, n.ID}) }

// Parts flattens a Sequence; a nil component has none.
func (c *Component) Parts() []Component {
	switch {
	case c == nil:
		return nil
	case c.Type != "Sequence":
		return []Component{*c}
	}
	var out []Component
	for _, list := range [][]Component{c.Normalizers, c.PreTokenizers, c.Processors, c.Decoders} {
		for i := range list {
			out = append(out, list[i].Parts()...)
		}
	}
	return out
}

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// maxEnds bounds the tokens around every text.
const maxEnds = 1000

// Ends returns the tokens that the post-processor puts before and after a text.
func (d *Definition) Ends() (before, after []int32, err error) {
	for _, c := range d.PostProcessor.Parts() {
		switch c.Type {
		case "ByteLevel": // offsets only
		case "BertProcessing", "RobertaProcessing":
			if c.CLS == nil || c.SEP == nil {
				return nil, nil, fmt.Errorf("post_processor %s names no cls or sep", c.Type)
			}
			before, after = []int32{c.CLS.ID}, []int32{c.SEP.ID}
		case "TemplateProcessing":
			before, after = nil, nil
			behind := false
			for _, p := range c.Single {
				switch {
				case p.SpecialToken == nil:
					behind = true
				case behind:
					after = append(after, d.named(&c, p.SpecialToken.ID)...)
				default:
					before = append(before, d.named(&c, p.SpecialToken.ID)...)
				}
				if len(before)+len(after) > maxEnds {
					return nil, nil, fmt.Errorf("post_processor %s puts more than %d tokens around a text", c.Type, maxEnds)
				}
			}
		default:
			return nil, nil, fmt.Errorf("post_processor %q is not supported", c.Type)
		}
	}
	return before, after, nil
}

// pairTokens are the tokens before, between and after two texts, and the second text's type.
type pairTokens struct {
	before, between, after []int32
	second                 int32
}

// pair returns the post-processor's tokens around two texts, A first; ok is false if it has no rule for two texts, or
// has them in another order.
func (d *Definition) pair() (p pairTokens, ok bool) {
	for _, c := range d.PostProcessor.Parts() {
		switch {
		case c.Type == "BertProcessing" && c.CLS != nil && c.SEP != nil:
			p, ok = pairTokens{[]int32{c.CLS.ID}, []int32{c.SEP.ID}, []int32{c.SEP.ID}, 1}, true
		case c.Type == "RobertaProcessing" && c.CLS != nil && c.SEP != nil:
			p, ok = pairTokens{[]int32{c.CLS.ID}, []int32{c.SEP.ID, c.SEP.ID}, []int32{c.SEP.ID}, 0}, true
		case c.Type == "TemplateProcessing":
			var around [3][]int32
			texts, last := "", int32(0)
			for _, part := range c.Pair {
				switch {
				case part.Sequence != nil:
					texts += part.Sequence.ID
					last = part.Sequence.Type
				case part.SpecialToken != nil && len(texts) < len(around) && len(around[0])+len(around[1])+len(around[2]) < maxEnds:
					around[len(texts)] = append(around[len(texts)], d.named(&c, part.SpecialToken.ID)...)
				}
			}
			p, ok = pairTokens{around[0], around[1], around[2], last}, texts == "AB"
		}
	}
	return p, ok
}

// Separators returns how many tokens the post-processor puts between two texts, 0 if it has no rule for them.
func (d *Definition) Separators() int {
	p, _ := d.pair()
	return len(p.between)
}

// named returns the tokens that a name in a template stands for.
func (d *Definition) named(c *Component, name string) []int32 {
	if ids, ok := c.SpecialTokens[name]; ok {
		return ids.IDs
	}
	for _, a := range d.Added {
		if a.Content == name {
			return []int32{a.ID}
		}
	}
	return nil
}

// pipeline is a compiled Definition, without the model and its pre-tokenizer.
type pipeline struct {
	raw, normalized *finder // added tokens searched for before and after the normalizer; nil: none
	template        *finder // raw for EncodeTemplate
	normalize       []rule
	before, after   []int32 // around a text
	byteTokens      bool    // <0x41> stands for a byte, whatever its type says

	decode  []func([]string) []string
	added   map[int32]string // added tokens as a decoder takes them
	further string           // WordPiece: what tokenizer.json puts before what continues a word
}

// define builds what d says.
func (t *Tokenizer) define(d *Definition) error {
	p := &pipeline{}
	var err error
	if p.normalize, err = normalizers(d.Normalizer); err != nil {
		return err
	}
	if p.before, p.after, err = d.Ends(); err != nil {
		return err
	}
	ids := make(map[string]int32, len(t.v.Tokens))
	texts := t.v.Tokens
	added := map[int32]*AddedToken{}
	for i := range d.Added {
		a := &d.Added[i]
		if a.ID < 0 || int(a.ID) >= len(texts) {
			return fmt.Errorf("added token %.40q: id %d is outside the %d tokens", a.Content, a.ID, len(texts))
		}
		added[a.ID] = a
	}
	for i, text := range texts {
		id := int32(i)
		if a := added[id]; a != nil {
			if a.OnlyAdded {
				continue
			}
			text = a.Content
		} else if t.v.kind(id) == Unused {
			continue
		}
		ids[text] = id
	}
	for _, list := range [][]int32{p.before, p.after} {
		for _, id := range list {
			if id < 0 || int(id) >= len(texts) {
				return fmt.Errorf("post_processor: id %d is outside the %d tokens", id, len(texts))
			}
		}
	}
	p.raw, p.normalized = newFinder(d.Added, nil, &t.v, false), newFinder(d.Added, p.normalize, &t.v, true)
	p.template = p.raw
	if slices.ContainsFunc(d.Added, func(a AddedToken) bool { return a.Template }) {
		all := slices.Clone(d.Added)
		for i := range all {
			all[i].Normalized = all[i].Normalized && !all[i].Template
			all[i].Template = false
		}
		p.template = newFinder(all, nil, &t.v, false)
	}
	if t.split, err = t.defineModel(d, ids); err != nil {
		return err
	}
	if p.decode, err = decoders(d.Decoder); err != nil {
		return err
	}
	p.added = make(map[int32]string, len(d.Added))
	for _, a := range d.Added {
		text := a.Content
		if a.Normalized {
			text = apply(p.normalize, text)
		}
		p.added[a.ID] = text
	}
	if d.Model.Type == "WordPiece" {
		p.further = d.Model.Prefix
	}
	t.pipe = p
	t.ends()
	t.defineDecoder(d.Decoder)
	return nil
}

// defineDecoder learns from a decoder how tokens write text.
func (t *Tokenizer) defineDecoder(c *Component) {
	t.writing = plain
	for _, part := range c.Parts() {
		switch part.Type {
		case "ByteLevel":
			t.writing = inBytes
		case "ByteFallback":
			t.pipe.byteTokens = true
		case "Metaspace":
			t.writing = spaced
		case "Replace":
			if part.Pattern != nil && part.Pattern.String != nil && *part.Pattern.String == space && part.Content == " " {
				t.writing = spaced
			}
		case "WordPiece":
			t.writing = spaced // as GGUF files have such tokens: ▁ before what begins a word
		}
	}
}

// ends lets the flags of a GGUF file or of tokenizer_config.json decide about BOS and EOS at the text's ends.
func (t *Tokenizer) ends() {
	p, v := t.pipe, &t.v
	if v.BOS >= 0 {
		has := len(p.before) > 0 && p.before[0] == v.BOS
		if has && !v.AddBOS {
			p.before = p.before[1:]
		} else if !has && v.AddBOS {
			p.before = append([]int32{v.BOS}, p.before...)
		}
	}
	if v.EOS >= 0 {
		n := len(p.after)
		has := n > 0 && p.after[n-1] == v.EOS
		if has && !v.AddEOS {
			p.after = p.after[:n-1]
		} else if !has && v.AddEOS {
			p.after = append(p.after, v.EOS)
		}
	}
}

// defineModel builds the model and returns its pre-tokenizer.
func (t *Tokenizer) defineModel(d *Definition, ids map[string]int32) ([]splitter, error) {
	parts := d.PreTokenizer.Parts()
	unknown := int32(-1)
	if d.Model.Unknown != nil {
		if id, ok := ids[*d.Model.Unknown]; ok {
			unknown = id
		}
	}
	switch d.Model.Type {
	case "BPE", "":
		merges := d.Model.Merges
		if merges == nil {
			var err error
			if merges, err = splitMerges(t.v.Merges); err != nil {
				return nil, err
			}
		}
		b := &bpe{size: len(t.v.Tokens), unknown: unknown, fuse: d.Model.FuseUnknown, fallback: d.Model.ByteFallback, whole: d.Model.IgnoreMerges}
		b.prefix, b.suffix = d.Model.Prefix, d.Model.Suffix
		if err := b.define(ids, merges); err != nil {
			return nil, err
		}
		// If writing bytes as characters is the last step, the characters need not be made.
		last := len(parts) - 1
		b.raw = last >= 0 && parts[last].Type == "ByteLevel" && b.prefix == "" && b.suffix == ""
		for i := range b.bytes {
			id, ok := ids[string(byteRune(byte(i)))]
			b.bytes[i] = id
			b.raw = b.raw && ok
		}
		for _, p := range parts[:max(last, 0)] {
			b.raw = b.raw && p.Type != "ByteLevel"
		}
		if b.ids = ids; b.raw {
			b.ids, b.pairs = byteTexts(ids), nil
		}
		t.model = b
		return splitters(parts, b.raw)
	case "Unigram":
		if d.Model.UnknownID != nil {
			unknown = *d.Model.UnknownID
		}
		scores := d.Model.Scores
		if scores == nil {
			for _, s := range t.v.Scores {
				scores = append(scores, float64(s))
			}
		}
		var bytes map[string]int32
		if d.Model.ByteFallback {
			bytes = ids
		}
		u, err := newUnigram(ids, scores, unknown, bytes, t.control)
		if err != nil {
			return nil, err
		}
		t.model = u
	case "WordPiece":
		if unknown = t.v.UNK; unknown < 0 {
			return nil, fmt.Errorf("the vocabulary lacks the unknown token of a WordPiece model")
		}
		w := newWordPiece(ids, unknown)
		w.limit = or(d.Model.LongestWord, w.limit)
		t.model = w
	case "WordLevel":
		if unknown < 0 {
			return nil, fmt.Errorf("the vocabulary lacks the unknown token of a WordLevel model")
		}
		t.model = &wordLevel{ids, unknown}
	default:
		return nil, fmt.Errorf("model %q is not supported; BPE, Unigram, WordPiece and WordLevel are", d.Model.Type)
	}
	return splitters(parts, false)
}

// define enters merges with parts and products that are tokens; of equal pairs the last one counts.
func (b *bpe) define(ids map[string]int32, merges [][2]string) error {
	if len(merges) > math.MaxInt32/2 {
		return fmt.Errorf("%d merges are too many", len(merges))
	}
	b.merges = newPairTable(len(merges))
	b.alone = make([]uint32, b.size)
	b.findByteIDs(ids)
	b.pairs = newPairs()
	bytes := map[string]bool{}
	for i := range b.byteIDs {
		if b.byteIDs[i] >= 0 {
			bytes[fmt.Sprintf("<0x%02X>", i)] = true
		} else if _, ok := ids[string(rune(i))]; b.fallback && (i >= utf8.RuneSelf || !ok) {
			b.pairs = nil // unknown and spelled characters may stand side by side
		}
	}
	for rank, m := range merges {
		if len(m[1]) < len(b.prefix) {
			return fmt.Errorf("merge %d: %.40q is shorter than the prefix", rank, m[1])
		}
		text := m[0] + m[1][len(b.prefix):]
		left, ok1 := ids[m[0]]
		right, ok2 := ids[m[1]]
		made, ok3 := ids[text]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d: %.40q, %.40q or both together are no token", rank, m[0], m[1])
		}
		b.merges.set(left, right, int32(rank), made)
		if b.pairs != nil {
			b.pairs.add(text)
		}
		if bytes[m[0]] || bytes[m[1]] {
			b.pairs = nil
		}
	}
	if b.prefix != "" || b.suffix != "" {
		b.pairs = nil
	}
	return nil
}

// DefinitionKey is the key of a GGUF file with a Definition as JSON. It is ours; llama.cpp ignores it.
const DefinitionKey = "tokenizer.powerinfer.definition"

// ParseDefinition reads the value of DefinitionKey.
func ParseDefinition(text string) (*Definition, error) {
	d := new(Definition)
	if err := CheckShape(text); err != nil {
		return nil, fmt.Errorf("%s: %w", DefinitionKey, err)
	}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		return nil, fmt.Errorf("%s is not a tokenizer's definition: %w", DefinitionKey, err)
	}
	return d, nil
}

// PreTokenizerName returns the name in tokenizer.ggml.pre with which llama.cpp cuts text like c, or the default's name.
func PreTokenizerName(c *Component, wholeWords bool) (string, bool) {
	patterns, ok := expressions(c)
	if !ok {
		return "default", false
	}
	for _, name := range []string{
		"gpt-2", "llama-bpe", "smaug-bpe", "qwen2", "qwen35", "starcoder", "falcon", "tekken", "gpt-4o", "granite-embed-multi-97m", "deepseek-v3",
		"deepseek-llm", "deepseek-coder", "kimi-k2", "minicpm5", "jais-2", "laguna", "seed-coder", "bailingmoe", "exaone-moe", "tiny_aya", "youtu",
		"bloom", "viking", "chameleon", "superbpe",
	} {
		if p, _ := preTokenizer(name); p.wholeWords == wholeWords && slices.Equal(p.patterns, patterns) {
			return name, true
		}
	}
	return "default", false
}

// expressions returns the patterns of a byte-level pre-tokenizer, if it cuts only by patterns.
func expressions(c *Component) ([]string, bool) {
	var out []string
	for _, p := range c.Parts() {
		switch {
		case p.Type == "ByteLevel" && !or(p.AddPrefixSpace, true):
			if or(p.UseRegex, true) {
				out = append(out, gpt2Expression)
			}
		case p.Type == "Split" && p.Pattern != nil && p.Pattern.Regex != nil && (p.Behavior == "Isolated" && !p.Invert || p.Behavior == "Removed" && p.Invert):
			out = append(out, strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(*p.Pattern.Regex))
		case p.Type == "Digits" && p.Individual:
			out = append(out, `\p{N}`)
		case p.Type == "Punctuation" && p.Behavior == "Contiguous":
			out = append(out, "[\\p{P}\\$\\+<=>\\^~\\|`]+")
		case p.Type == "Digits":
			// Falcon's: GPT-2's expression keeps digits together already.
		default:
			return nil, false
		}
	}
	return out, true
}
