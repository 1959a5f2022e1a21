// Package tokenizer turns text into token ids and back. It follows a GGUF file's keys, as llama.cpp does, or a
// Definition, the rest of a tokenizer.json, as Hugging Face's library does. A Tokenizer is immutable and safe for
// concurrent use.
package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Kinds of token, numbered as in GGUF's tokenizer.ggml.token_type and SentencePiece's model file.
const (
	Normal      int32 = 1
	Unknown     int32 = 2
	Control     int32 = 3
	UserDefined int32 = 4
	Unused      int32 = 5
	Byte        int32 = 6
)

// Vocab is a vocabulary as a model file describes it; the index in Tokens is the token's id.
type Vocab struct {
	Model  string    // as in tokenizer.ggml.model
	Pre    string    // gpt2: name of the pre-tokenizer (tokenizer.ggml.pre); empty is "default"
	Tokens []string  // gpt2: bytes written as GPT-2's printable characters; llama, t5, gemma4: U+2581 for a space; bert: before what begins a word
	Scores []float32 // for llama, t5, plamo2: one for each token, the highest merges first or is the likeliest; empty: all are equal; others: ignored
	Types  []int32   // one for each token: 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte; empty: all normal
	Merges []string  // gpt2, gemma4: "left right", the first merges first

	// Definition is the rest of the tokenizer.json that the vocabulary comes from. If it is set, text is encoded as it
	// says; nil: as llama.cpp encodes a file with these keys.
	Definition *Definition

	// StripBefore and StripAfter are special tokens that take the white space before or after them with them; a
	// Definition says so itself.
	StripBefore, StripAfter []int32

	BOS, EOS, UNK, EOT, PAD int32   // -1: none
	SEP                     int32   // bert: after a text; others: between two of them, if AddSEP is set
	Ends                    []int32 // more tokens that end a generation, according to the file

	Strange []string // keys of the file with tokens that it does not have; see Note

	Infill Infill // those that the file names, the others -1; zero: it names none

	AddBOS, AddEOS bool // what Encode adds around a text when asked for special tokens
	AddSEP         bool // EncodePair puts SEP before the second text
	AddSpacePrefix bool // llama: a space is put before the text and before what follows a special token
	Normalization
}

// Normalization says how text is changed before it is encoded, without a Definition.
type Normalization struct {
	Charsmap                []byte // t5: SentencePiece's precompiled normalization
	Lowercase, StripAccents bool   // bert
	// RemoveExtraWhitespaces makes one space of several. Only t5 applies it: for llama, where runs of spaces matter in
	// code, llama.cpp keeps them, too.
	RemoveExtraWhitespaces bool
}

// Tokenizer encodes and decodes with one vocabulary.
type Tokenizer struct {
	v        Vocab
	ids      map[string]int32 // token text -> id; the last one of equal texts
	specials trie
	pieces   []string // id -> the bytes it stands for; empty for control, unknown and unused tokens
	eog      map[int32]bool

	pipe    *pipeline           // of a Definition; nil without one
	spm     *sentencePiece      // model "llama" without a Definition; then the rest is nil
	prepare func(string) string // without a Definition: changes text between special tokens; nil: nothing does
	split   []splitter
	model   wordEncoder
	writing writing

	encoders sync.Pool // of *encoder
}

// models lists the values of tokenizer.ggml.model that New takes.
var models = []string{"llama", "gpt2", "bert", "t5", "gemma4", "whitespace", "rwkv", "wordlevel", "plamo2"}

// scored are the models with scores of tokens.
var scored = []string{"llama", "t5", "plamo2"}

// New checks v, which may come from a hostile file, and builds its tokenizer. It keeps v's slices: do not change them.
func New(v Vocab) (*Tokenizer, error) {
	if err := v.check(); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if len(v.Scores) == 0 && slices.Contains(scored, v.Model) {
		v.Scores = make([]float32, len(v.Tokens))
	}
	if v.Definition == nil {
		v.markEnds()
	}
	t := &Tokenizer{v: v, ids: make(map[string]int32, len(v.Tokens))}
	t.encoders.New = func() any { return new(encoder) }
	for id, text := range v.Tokens {
		if text != "" {
			t.ids[text] = int32(id)
		}
	}
	var err error
	if v.Definition != nil {
		err = t.define(v.Definition)
	} else {
		err = t.follow()
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t.specials = newTrie(&t.v)
	t.eog = t.findEnds()
	t.pieces = make([]string, len(v.Tokens))
	for id := range t.pieces {
		t.pieces[id] = t.piece(int32(id))
	}
	return t, nil
}

// check validates what does not depend on the model.
func (v *Vocab) check() error {
	n := len(v.Tokens)
	switch {
	case !slices.Contains(models, v.Model):
		return fmt.Errorf("model %q is not supported; supported are %s", v.Model, strings.Join(models, ", "))
	case n == 0:
		return errors.New("the vocabulary has no tokens")
	case n > math.MaxInt32/2:
		return fmt.Errorf("%d tokens are too many", n)
	case len(v.Types) != 0 && len(v.Types) != n:
		return fmt.Errorf("%d token types for %d tokens", len(v.Types), n)
	case slices.Contains(scored, v.Model) && len(v.Scores) != 0 && len(v.Scores) != n:
		return fmt.Errorf("%d scores for %d tokens", len(v.Scores), n)
	}
	for id, kind := range v.Types {
		if kind < Normal || kind > Byte {
			return fmt.Errorf("token %d: type %d is none of 1 to 6", id, kind)
		}
	}
	for _, s := range []struct {
		name string
		id   int32
	}{
		{"BOS", v.BOS},
		{"EOS", v.EOS},
		{"UNK", v.UNK},
		{"EOT", v.EOT},
		{"PAD", v.PAD},
		{"separator", v.SEP},
		{"infill prefix", v.Infill.Prefix},
		{"infill suffix", v.Infill.Suffix},
		{"infill middle", v.Infill.Middle},
		{"repository", v.Infill.Repository},
		{"file separator", v.Infill.File},
		{"infill padding", v.Infill.Pad},
	} {
		if s.id < -1 || int(s.id) >= n {
			return fmt.Errorf("%s id %d is outside the %d tokens", s.name, s.id, n)
		}
	}
	for _, id := range v.Ends {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("id %d, which ends a generation, is outside the %d tokens", id, n)
		}
	}
	if v.AddBOS && v.BOS < 0 {
		return errors.New("a BOS token is to be added, but the vocabulary names none")
	}
	if v.AddEOS && v.EOS < 0 {
		return errors.New("an EOS token is to be added, but the vocabulary names none")
	}
	return nil
}

func (v *Vocab) kind(id int32) int32 {
	if len(v.Types) == 0 {
		return Normal
	}
	return v.Types[id]
}

// control reports whether no text spells the token: a control token, or the unknown one.
func (t *Tokenizer) control(id int32) bool {
	kind := t.v.kind(id)
	return kind == Control || kind == Unknown
}

// Size returns the number of tokens.
func (t *Tokenizer) Size() int { return len(t.v.Tokens) }

// Text returns the token's text as the vocabulary writes it; empty for an id outside it.
func (t *Tokenizer) Text(id int32) string {
	if id < 0 || int(id) >= len(t.v.Tokens) {
		return ""
	}
	return t.v.Tokens[id]
}

// IsEOG reports whether the token ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return t.eog[id] }

// BOS returns the id of the token that begins a text, -1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.v.BOS }

// EOS returns the id of the token that ends a text, -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.v.EOS }

// UNK returns the id of the token for text that the vocabulary cannot write, or -1 if there is none.
func (t *Tokenizer) UNK() int32 { return t.v.UNK }

// EOT returns the id of the token that ends a turn, -1 if there is none.
func (t *Tokenizer) EOT() int32 { return t.v.EOT }

// PAD returns the id of the padding token, -1 if there is none.
func (t *Tokenizer) PAD() int32 { return t.v.PAD }

// AddsBOS reports whether Encode begins with BOS when special tokens are asked for.
func (t *Tokenizer) AddsBOS() bool { return t.v.AddBOS }

// AddsEOS reports whether Encode ends with EOS when special tokens are asked for.
func (t *Tokenizer) AddsEOS() bool { return t.v.AddEOS }

// Note returns one line for the user about the file's vocabulary, or an empty string.
func (t *Tokenizer) Note() string {
	var notes []string
	if len(t.v.Strange) > 0 {
		notes = append(notes, fmt.Sprintf("%s: the file has no token of that number, so that it counts for nothing", strings.Join(t.v.Strange, ", ")))
	}
	if t.pipe == nil && t.v.Model == "gpt2" && !KnownPreTokenizer(t.v.Pre) {
		notes = append(notes, fmt.Sprintf("tokenizer.ggml.pre %q is not known: text is split by the default expressions, and some becomes other tokens than those "+
			"that the model was trained on", t.v.Pre))
	}
	return strings.Join(notes, "; ")
}
