// Package tokenizer turns text into token ids and back: SentencePiece (llama) and byte-level BPE (gpt2), as the
// vocabularies of GGUF files describe them.
package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Token types as GGUF files number them.
const (
	Normal      int32 = 1
	Unknown     int32 = 2
	Control     int32 = 3
	UserDefined int32 = 4
	Unused      int32 = 5
	Byte        int32 = 6
)

// Vocab is a vocabulary as a file describes it. Ids are indices into Tokens; -1 means none.
type Vocab struct {
	Model                   string    // llama or gpt2
	Pre                     string    // pre-tokeniser of gpt2
	Tokens                  []string  // [n]
	Scores                  []float32 // [n], llama only
	Types                   []int32   // [n] or empty: all normal
	Merges                  []string  // "left right", best first; gpt2 only
	BOS, EOS, UNK, EOT, PAD int32
	AddBOS, AddEOS          bool
	AddSpacePrefix          bool // llama: texts begin with a space
	RemoveExtraWhitespaces  bool // llama: runs of spaces become one
}

// Tokenizer is an immutable tokenizer; several goroutines may use it.
type Tokenizer struct {
	v       Vocab
	ids     map[string]int32
	special specials
	eog     map[int32]bool
	encode  func(text string, out []int32) []int32 // text between special tokens
	bytes   [256]int32                             // llama: ids of byte tokens, -1 none
	pieces  [][]byte                               // [n] what a token stands for
}

// maxVocab bounds what is taken for a vocabulary.
const maxVocab = 1 << 24

// New checks v and builds its tokenizer.
func New(v Vocab) (*Tokenizer, error) {
	n := len(v.Tokens)
	if n == 0 || n > maxVocab {
		return nil, fmt.Errorf("tokenizer: a vocabulary of %d tokens", n)
	}
	if len(v.Types) == 0 {
		v.Types = make([]int32, n)
		for i := range v.Types {
			v.Types[i] = Normal
		}
	}
	if len(v.Types) != n {
		return nil, fmt.Errorf("tokenizer: %d token types for %d tokens", len(v.Types), n)
	}
	for _, s := range []struct {
		name string
		id   int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"unknown", v.UNK}, {"eot", v.EOT}, {"padding", v.PAD}} {
		if s.id < -1 || int(s.id) >= n {
			return nil, fmt.Errorf("tokenizer: %s token %d is outside the vocabulary of %d", s.name, s.id, n)
		}
	}
	t := &Tokenizer{v: v, ids: make(map[string]int32, n)}
	for i, s := range v.Tokens {
		if _, ok := t.ids[s]; !ok { // the first of equals wins
			t.ids[s] = int32(i)
		}
	}
	var err error
	switch v.Model {
	case "llama":
		err = t.initSPM()
	case "gpt2":
		err = t.initBPE()
	default:
		err = fmt.Errorf("tokenizer: model %q is not supported; supported are llama (SentencePiece) and gpt2 (byte-level BPE)", v.Model)
	}
	if err != nil {
		return nil, err
	}
	t.special = newSpecials(&v)
	t.eog = endsOfGeneration(&v)
	return t, nil
}

// endsOfGeneration are the tokens that end a text: EOS, EOT and control tokens named as models name them.
func endsOfGeneration(v *Vocab) map[int32]bool {
	out := map[int32]bool{}
	for _, id := range []int32{v.EOS, v.EOT} {
		if id >= 0 {
			out[id] = true
		}
	}
	names := map[string]bool{"<|eot_id|>": true, "<|im_end|>": true, "<|end|>": true, "<end_of_turn>": true,
		"<|endoftext|>": true, "<|eom_id|>": true, "<EOT>": true, "<|end_of_text|>": true}
	for i, s := range v.Tokens {
		if names[s] && (v.Types[i] == Control || v.Types[i] == UserDefined) {
			out[int32(i)] = true
		}
	}
	return out
}

// Size is the number of tokens.
func (t *Tokenizer) Size() int { return len(t.v.Tokens) }

// BOS is the token that begins a text, or -1.
func (t *Tokenizer) BOS() int32 { return t.v.BOS }

// EOS is the token that ends a text, or -1.
func (t *Tokenizer) EOS() int32 { return t.v.EOS }

// AddsBOS reports whether texts begin with BOS.
func (t *Tokenizer) AddsBOS() bool { return t.v.AddBOS && t.v.BOS >= 0 }

// IsEOG reports whether id ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return t.eog[id] }

// Text is id's entry in the vocabulary.
func (t *Tokenizer) Text(id int32) string { return t.v.Tokens[id] }

// Encode tokenises text. addSpecial adds BOS and EOS as the vocabulary says; parseSpecial takes names of control
// tokens in the text for these tokens. User-defined tokens are always recognised.
func (t *Tokenizer) Encode(text string, addSpecial, parseSpecial bool) []int32 {
	out := make([]int32, 0, len(text)/3+4)
	if addSpecial && t.AddsBOS() {
		out = append(out, t.v.BOS)
	}
	begins := true // of the text, or behind a special token
	t.special.cut(text, parseSpecial, func(part string) {
		if t.v.Model == "llama" && t.v.AddSpacePrefix && begins {
			part = " " + part
		}
		out = t.encode(part, out)
		begins = false
	}, func(id int32) {
		out = append(out, id)
		begins = true
	})
	if addSpecial && t.v.AddEOS && t.v.EOS >= 0 {
		out = append(out, t.v.EOS)
	}
	return out
}

// Piece is the bytes that id stands for; control tokens stand for nothing unless special is set.
func (t *Tokenizer) Piece(id int32, special bool) []byte {
	if id < 0 || int(id) >= len(t.pieces) {
		return nil
	}
	if typ := t.v.Types[id]; typ == Control || typ == Unknown {
		if special {
			return []byte(t.v.Tokens[id])
		}
		return nil
	}
	return t.pieces[id]
}

// Decode is the text of ids; bytes that are no UTF-8 become U+FFFD.
func (t *Tokenizer) Decode(ids []int32, special bool) string {
	s := t.NewStream(special)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Push(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}

// Stream decodes tokens as they come and emits whole code points only.
type Stream struct {
	t       *Tokenizer
	special bool
	pending []byte // the beginning of a code point
}

// NewStream starts a decoder.
func (t *Tokenizer) NewStream(special bool) *Stream {
	return &Stream{t: t, special: special, pending: make([]byte, 0, 64)}
}

// Push returns what can be said for certain once id is known.
func (s *Stream) Push(id int32) string {
	s.pending = append(s.pending, s.t.Piece(id, s.special)...)
	n := wholePrefix(s.pending)
	out := strings.ToValidUTF8(string(s.pending[:n]), "\uFFFD")
	s.pending = s.pending[:copy(s.pending, s.pending[n:])]
	return out
}

// Flush returns what is left at the end, incomplete code points as U+FFFD.
func (s *Stream) Flush() string {
	out := strings.ToValidUTF8(string(s.pending), "\uFFFD")
	s.pending = s.pending[:0]
	return out
}

// wholePrefix is the length of b without a code point that more bytes could complete.
func wholePrefix(b []byte) int {
	for back := 1; back <= min(3, len(b)); back++ {
		c := b[len(b)-back]
		if utf8.RuneStart(c) {
			if c >= 0x80 && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}

// byteToken is the byte that a token named <0xNN> stands for.
func byteToken(s string) (byte, bool) {
	if len(s) != 6 || !strings.HasPrefix(s, "<0x") || s[5] != '>' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[3:5], 16, 8)
	return byte(v), err == nil
}
