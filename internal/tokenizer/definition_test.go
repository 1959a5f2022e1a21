package tokenizer

import (
	"slices"
	"testing"
	"unicode/utf8"
)

// FuzzDefinition: a definition from outside is refused or works on every text.
func FuzzDefinition(f *testing.F) {
	for _, d := range []string{
		`{"normalizer":{"type":"NFKC"},"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","fuse_unk":true}}`,
		`{"added_tokens":[{"id":1,"content":"<s>","lstrip":true},{"id":2,"content":"ab","normalized":true,"single_word":true}],"normalizer":{"type":"Lowercase"},
			"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a|(?=b+)"},"behavior":"MergedWithNext"},{"type":"ByteLevel"}]},"model":{}}`,
		`{"model":{"type":"Unigram","unk_id":0},"decoder":{"type":"Strip","content":" ","start":1},"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAABh"}}`,
		`{"model":{"type":"WordPiece","unk_token":"<unk>"},"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},
			"post_processor":{"type":"BertProcessing","cls":["<s>",1],"sep":["</s>",2]},"decoder":{"type":"WordPiece","prefix":"##"}}`,
		`{"added_tokens":[{"id":-1}]}`,
		`{"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[99999]}}}}`,
	} {
		f.Add(d, "ab <s>Å\u0301 日\xff b")
	}
	f.Fuzz(func(t *testing.T, text, input string) {
		if len(text) > 2000 || len(input) > 2000 {
			return
		}
		d, err := ParseDefinition(text)
		if err != nil {
			return
		}
		v := piecesVocab()
		v.Definition, v.Merges = d, []string{"a b"}
		tok, err := New(v)
		if err != nil {
			return
		}
		for _, parseSpecial := range []bool{false, true} {
			ids := tok.Encode(input, true, parseSpecial)
			expectInRange(t, tok, ids)
			if again := tok.Encode(input, true, parseSpecial); !slices.Equal(ids, again) {
				t.Errorf("first %v, then %v", ids, again)
			}
			if out := tok.Detokenize(ids, true); utf8.ValidString(text) && !utf8.ValidString(out) {
				t.Errorf("detokenized %q", out)
			}
			tok.Decode(ids, true)
		}
	})
}
