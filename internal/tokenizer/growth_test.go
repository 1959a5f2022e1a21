package tokenizer

import (
	"fmt"
	"strings"
	"testing"
)

// defined returns a tokenizer of letters with a part of a definition.
func defined(t *testing.T, part string) (*Tokenizer, error) {
	t.Helper()
	d, err := ParseDefinition(`{"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true},` + part + `}`)
	if err != nil {
		t.Fatal(err)
	}
	v := Vocab{Model: "gpt2", Tokens: []string{"<unk>", "a", "b", "aa", " "}, Merges: []string{"a a"}, Definition: d, BOS: -1, EOS: -1, UNK: 0}
	return New(v)
}

// chain returns a sequence of n equal rules.
func chain(kind, list, part string, n int) string {
	return fmt.Sprintf(`%q:{"type":"Sequence",%q:[%s]}`, kind, list, strings.TrimSuffix(strings.Repeat(part+",", n), ","))
}

// TestGrowth: in every component, rules that lengthen the output of earlier ones are refused with the rule's name.
func TestGrowth(t *testing.T) {
	const (
		doubling = `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`
		cased    = `{"type":"Replace","pattern":{"String":"a"},"content":"AA"},{"type":"Lowercase"}`
		matching = `{"type":"Replace","pattern":{"Regex":"a"},"content":"aa"}`
		empty    = `{"type":"Replace","pattern":{"Regex":"b*"},"content":"a"}`
	)
	for _, k := range []struct{ what, part, want string }{
		{"doubling", chain("normalizer", "normalizers", doubling, 60), "normalizer Replace, number 11 of 60"},
		{"doubling, with another case between", chain("normalizer", "normalizers", cased, 30), "normalizer Replace, number 21 of 60"},
		{"doubling by an expression", chain("normalizer", "normalizers", matching, 60), "normalizer Replace, number 11 of 60"},
		{"by empty matches", chain("normalizer", "normalizers", empty, 60), "normalizer Replace, number 11 of 60"},
		{"prepending", chain("normalizer", "normalizers", `{"type":"Prepend","prepend":"aaa"}`, 60), "normalizer Prepend, number 6 of 60"},
		{"bytes as characters", chain("normalizer", "normalizers", `{"type":"ByteLevel"}`, 60), "normalizer ByteLevel, number 11 of 60"},
		{"Chinese", chain("normalizer", "normalizers", `{"type":"BertNormalizer"}`, 60), "normalizer BertNormalizer, number 14 of 60"},
		{"a long content", `"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 2000) + `"}`, "normalizer Replace, number 1 of 1"},
		{"many rules", chain("normalizer", "normalizers", `{"type":"Sequence","normalizers":[`+strings.Repeat(`{"type":"NFC"},`, 699)+`{"type":"NFC"}]}`, 2), "normalizer has 1400 parts"},
		{"a decoder", chain("decoder", "decoders", doubling, 60), "decoder Replace, number 11 of 60"},
		{"a decoder that adds spaces", chain("decoder", "decoders", `{"type":"BPEDecoder","suffix":""}`, 60), "decoder BPEDecoder, number 11 of 60"},
		{"a pre-tokenizer", chain("pre_tokenizer", "pretokenizers", `{"type":"ByteLevel"}`, 60), "pre_tokenizer ByteLevel, number 11 of 60"},
		{"a mark of two characters", `"pre_tokenizer":{"type":"Metaspace","replacement":"  "}`, "is not one character"},
		{"tokens around a text", `"post_processor":{"type":"TemplateProcessing","single":[` + strings.Repeat(`{"SpecialToken":{"id":"x"}},`, 100) + `{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[` + strings.TrimSuffix(strings.Repeat("1,", 100), ",") + `]}}}`, "more than 1000 tokens"},
	} {
		if _, err := defined(t, k.part); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v does not say %q", k.what, err, k.want)
		}
	}
}

// TestHonestRules: rules that lengthen texts in parallel, and the usual ones in sequence, are accepted.
func TestHonestRules(t *testing.T) {
	var side []string
	for r := 'b'; r <= 'z'; r++ {
		side = append(side, fmt.Sprintf(`{"type":"Replace","pattern":{"String":"%c"},"content":"<%d>"}`, r, r))
	}
	for what, part := range map[string]string{
		"letters by numbers": chain("normalizer", "normalizers", strings.Join(side, ","), 1),
		"as ALBERT has them": chain("normalizer", "normalizers", `{"type":"Replace","pattern":{"String":"`+"``"+`"},"content":"\""},{"type":"NFKD"},{"type":"StripAccents"},{"type":"Lowercase"},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "},{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, 1),
		"joining spaces":     chain("normalizer", "normalizers", `{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}`, 60),
		"as Llama has them":  `"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}`,
	} {
		if _, err := defined(t, part); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestGrowthOfText: the growth of a text by the remaining rules is limited by its length.
func TestGrowthOfText(t *testing.T) {
	tok, err := defined(t, chain("normalizer", "normalizers", `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`, 10))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3, 1000, 100000} {
		if got := len(tok.Encode(strings.Repeat("a", n), false, false)); got > mostBytes(n) || got < n/2 {
			t.Errorf("%d letters became %d tokens, and may become %d", n, got, mostBytes(n))
		}
	}
}

// TestStripCounts: a decoder strips no more than there is, however large the count.
func TestStripCounts(t *testing.T) {
	tok, err := defined(t, `"decoder":{"type":"Strip","content":"a","start":9000000000000000000,"stop":9000000000000000000}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Detokenize([]int32{3, 2, 1}, false); got != "b" {
		t.Errorf("%q", got)
	}
}

// TestDefinitionLists: long lists of counted parts, and endlessly nested parts, are refused while they are read.
func TestDefinitionLists(t *testing.T) {
	nulls := strings.TrimSuffix(strings.Repeat("null,", 1<<21), ",")
	for what, text := range map[string]string{
		"parts":                `{"normalizer":{"type":"Sequence","normalizers":[` + nulls + `]}}`,
		"added tokens":         `{"added_tokens":[` + nulls + `]}`,
		"parts without type":   `{"normalizer":{"type":"Sequence","normalizers":[null]}}`,
		"objects":              `{"added_tokens":[` + strings.Repeat("{},", 1<<19) + `{}]}`,
		"a list in a list":     `{"decoder":` + strings.Repeat(`{"type":"Sequence","decoders":[`, 5000) + strings.Repeat("]}", 5000) + `}`,
		"an object for a list": `{"added_tokens":{}}`,
	} {
		if _, err := ParseDefinition(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if d, err := ParseDefinition(`{"added_tokens":null,"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"String":"[[{"},"content":"\"{["}]}}`); err != nil || len(d.Normalizer.Parts()) != 2 {
		t.Error(d, err)
	}
}
