package engine

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// TestStopInsideCharacter: a text that is stopped, or ends, inside a character does not have the character's part, and
// each piece has only whole characters.
func TestStopInsideCharacter(t *testing.T) {
	v := tokenizer.Vocab{Model: "llama", Tokens: []string{"<unk>", "<s>", "</s>"}, Types: []int32{tokenizer.Unknown, tokenizer.Control, tokenizer.Control}, BOS: 1, EOS: 2, EOT: -1, PAD: -1}
	for b := range 256 {
		v.Tokens, v.Types = append(v.Tokens, fmt.Sprintf("<0x%02X>", b)), append(v.Types, tokenizer.Byte)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes, want, word string
		stops             []string
	}{
		{"a\xF0\x9F\xA6STOP", "a", "STOP", []string{"STOP"}},
		{"a\xF0\x9F\xA6STEP", "a\uFFFDSTEP", "", []string{"STOP"}},
		{"a\xF0\x9F\xA6bSTOP", "a\uFFFDb", "STOP", []string{"STOP"}},
		{"a\xFFSTOP", "a\uFFFD", "STOP", []string{"STOP"}}, // 0xFF begins no character
		{"é\uFFFDSTOP", "é\uFFFD", "STOP", []string{"STOP"}},
		{"\xE2\x82STSTOP", "\uFFFDST", "STOP", []string{"STOP"}},
		{"price 5 \xE2\x82", "price 5 ", "", nil},
		{"price 5 \xE2\x82", "price 5 ", "", []string{"€€"}},
		{"5 €€ 6", "5 ", "€€", []string{"€€"}},
		{"5 € 6", "5 € 6", "", []string{"€€"}},
		{"5 €x", "5 ", "\xACx", []string{"\xACx"}}, // a string that begins inside a character
		{"5 €y", "5 €y", "", []string{"\xACx"}},
		{"5 €é", "5 ", "€\xC3", []string{"€\xC3"}},
	} {
		st := newStopText(tok.NewStream(false), c.stops)
		var got strings.Builder
		stopped := false
		for _, b := range []byte(c.bytes) {
			text, stop := st.push(int32(b) + 3)
			if !utf8.ValidString(text) {
				t.Errorf("%q: %q came", c.bytes, text)
			}
			got.WriteString(text)
			if stopped = stop; stop {
				break
			}
		}
		if !stopped {
			got.WriteString(st.rest())
		}
		if got.String() != c.want || st.word != c.word {
			t.Errorf("%q until %q: %q, stopped by %q", c.bytes, c.stops, got.String(), st.word)
		}
	}
}
