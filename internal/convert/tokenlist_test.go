package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenList: lines of PLaMo 2's tokenizer.jsonl become tokens, scores and kinds, and the remaining rows get unused
// tokens.
func TestTokenList(t *testing.T) {
	var lines strings.Builder
	lines.WriteString(`["<|plamo:unk|>", 0.0, "UNKNOWN", "", "", ""]` + "\n\n" + `["<|plamo:bos|>", 0.0, "NORMAL"]` + "\n" + `["<|plamo:eos|>", 0.0, "CONTROL"]` + "\n")
	for b := range 256 {
		fmt.Fprintf(&lines, "[\"<0x%02X>\", 0.0, \"BYTE\"]\n", b)
	}
	lines.WriteString(`["日本", -4.25, "NORMAL"]` + "\n" + `["<|plamo:op|>", 0.0, "NORMAL"]`)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.jsonl", lines.String())
	write("tokenizer_config.json", `{"bos_token":"<|plamo:bos|>","eos_token":"<|plamo:eos|>","unk_token":"<|plamo:unk|>","add_bos_token":true}`)
	c := &config{}
	c.Vocab = 264
	v, err := readVocabulary(dir, c, nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int]struct {
		text  string
		score float32
		kind  int32
	}{
		0: {"<|plamo:unk|>", 0, tokenUnknown}, 1: {"<|plamo:bos|>", 0, tokenControl}, 2: {"<|plamo:eos|>", 0, tokenControl}, 3: {"<0x00>", 0, tokenByte},
		259: {"日本", -4.25, tokenNormal}, 260: {"<|plamo:op|>", 0, tokenControl}, 261: {"[PAD261]", scoreUnused, tokenUnused},
	} {
		if v.tokens[id] != want.text || v.scores[id] != want.score || v.types[id] != want.kind {
			t.Errorf("token %d is %q, %g, %d, want %v", id, v.tokens[id], v.scores[id], v.types[id], want)
		}
	}
	if v.model != "plamo2" || v.ids["bos"] != 1 || v.ids["eos"] != 2 || v.ids["eot"] != 260 || v.ids["unknown"] != 0 || len(v.tokens) != c.Vocab {
		t.Errorf("%s, %d tokens, ids %v", v.model, len(v.tokens), v.ids)
	}
	for text, want := range map[string]string{
		`{"a":1}`:                           "line 1: it is no list of a token, its score and its kind",
		"[\"a\", 0]\n[\"b\"]":               "line 2: it is no list",
		`["a", "b"]`:                        "is no token with its score and its kind",
		`["a", 0, "NORMAL"]`:                "lacks the token <0x00> of a byte",
		strings.Repeat("[\"a\", 0]\n", 265): "line 265: more tokens than the 264 rows",
	} {
		write("tokenizer.jsonl", text)
		_, err := readVocabulary(dir, c, nil, func(string) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
