package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// TestWorld: lines of RWKV's World vocabulary become tokens of bytes, and encoding takes the longest at each place.
func TestWorld(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, worldFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Join([]string{`1 'a' 1`, `2 '\n\n' 2`, `3 'é' 2`, `4 b'\xc3' 1`, `5 b'\xa9\\' 2`, `6 "don't" 5`, `7 ' a' 2`, `8 'aa' 2`, `9 '\u65e5' 3`, `10 '\x7f' 1`, `11 ' ' 1`, `12 '\\n' 2`}, "\n"))
	c := &config{}
	c.Vocab = 16
	v, err := readVocabulary(dir, c, nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"<s>", "a", `\n\n`, `\xc3\xa9`, `\xc3`, `\xa9\\`, "don't", " a", "aa", `\xe6\x97\xa5`, `\x7f`, " ", `\\n`, "[PAD13]", "[PAD14]", "[PAD15]"}
	if !slices.Equal(v.tokens, want) {
		t.Errorf("%q, want %q", v.tokens, want)
	}
	if v.ids["bos"] != 0 || v.ids["eos"] != 0 || v.ids["eot"] != 2 || v.templates["default"] != "rwkv-world" {
		t.Errorf("ids %v, templates %v", v.ids, v.templates)
	}
	tok, err := tokenizer.New(tokenizer.Vocab{Model: v.model, Tokens: v.tokens, Types: v.types, BOS: 0, EOS: 0, UNK: -1, EOT: 2, PAD: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{"aaa a": {8, 1, 7}, "é\n\n": {3, 2}, "日a": {9, 1}, `a\n`: {1, 12}, "\xc3\xa9\\": {3}, "don't": {6}} {
		got := tok.Encode(text, false, false)
		if text == "\xc3\xa9\\" { // the rest has no token
			got = got[:1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q becomes %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`2 'a' 1`:   "line 1: it is no line of token 1",
		`1 'a' 2`:   "token 1 has 1 bytes, and its line says 2",
		`1 a 1`:     "its token is no text or bytes as Python writes them",
		`1 '\q' 2`:  "its token is no text or bytes",
		`1 b'\x' 1`: "its token is no text or bytes",
	} {
		write(text)
		if _, err := readVocabulary(dir, c, nil, func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
