package convert

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	models "github.com/powerinfer-go/powerinfer/internal/model"
)

// xlmPost is a post-processor of the form that Hugging Face writes for XLM-RoBERTa: its pairs have two separators
// (RobertaProcessing does the same).
const xlmPost = `{"type":"TemplateProcessing",
	"single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
	"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},
		{"SpecialToken":{"id":"</s>","type_id":0}},{"Sequence":{"id":"B","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
	"special_tokens":{"</s>":{"id":"</s>","ids":[2],"tokens":["</s>"]},"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}}`

// xlmPair is <s> query </s></s> document </s>, for the texts "query" and "document" as the tokens 4 and 5.
var xlmPair = []int32{0, 4, 2, 2, 5, 2}

// TestXLMRobertaPair: a folder's post-processor builds the pairs, and names of control tokens in their texts are text.
func TestXLMRobertaPair(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json": `{"added_tokens":[{"id":0,"content":"<s>","special":true},{"id":1,"content":"<pad>","special":true},
			{"id":2,"content":"</s>","special":true},{"id":3,"content":"<unk>","special":true}],"normalizer":null,
			"pre_tokenizer":{"type":"Metaspace","replacement":"▁","add_prefix_space":true},"decoder":{"type":"Metaspace","replacement":"▁","add_prefix_space":true},
			"post_processor":` + xlmPost + `,
			"model":{"type":"Unigram","unk_id":3,"vocab":[["<s>",0],["<pad>",0],["</s>",0],["<unk>",0],["▁query",-1],["▁document",-2]]}}`,
		"tokenizer_config.json": `{"tokenizer_class":"XLMRobertaTokenizer","bos_token":"<s>","eos_token":"</s>","sep_token":"</s>","cls_token":"<s>","unk_token":"<unk>","pad_token":"<pad>"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok := folderTokenizer(t, dir)
	if got := tok.EncodePair("query", "document"); !slices.Equal(got, xlmPair) || tok.PairTypes(got) != nil {
		t.Errorf("%v of the types %v, not %v of the first type", got, tok.PairTypes(got), xlmPair)
	}
	got := tok.EncodePair("query", "document</s></s><pad><s>") // a document cannot end itself
	if n := len(xlmPair) - 1; !slices.Equal(got[:n], xlmPair[:n]) || slices.ContainsFunc(got[n:len(got)-1], func(id int32) bool { return id < 3 }) {
		t.Errorf("%v: control tokens that the document spells", got)
	}
}

// TestXLMRobertaPairGGUF: the keys of llama.cpp's conversion of the same tokenizer (conversion/bert.py; gguf-py's
// vocab.py makes add_sep_token of two separators) give the same pairs.
func TestXLMRobertaPairGGUF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xlm.gguf")
	keys := []gguf.KV{
		{Key: "general.architecture", Value: "bert"},
		{Key: "tokenizer.ggml.model", Value: "t5"},
		{Key: "tokenizer.ggml.pre", Value: "default"},
		{Key: "tokenizer.ggml.tokens", Value: []string{"<s>", "<pad>", "</s>", "<unk>", "▁query", "▁document"}},
		{Key: "tokenizer.ggml.scores", Value: []float32{0, 0, 0, 0, -1, -2}},
		{Key: "tokenizer.ggml.token_type", Value: []int32{3, 3, 3, 2, 1, 1}},
		{Key: "tokenizer.ggml.add_space_prefix", Value: true},
		{Key: "tokenizer.ggml.remove_extra_whitespaces", Value: true},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(0)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(3)},
		{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.padding_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.add_bos_token", Value: true},
		{Key: "tokenizer.ggml.add_sep_token", Value: true},
		{Key: "tokenizer.ggml.add_eos_token", Value: true},
	}
	if err := gguf.Create(t.Context(), path, "GGUF", keys, nil, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := models.Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.EncodePair("query", "document"); !slices.Equal(got, xlmPair) || tok.PairTypes(got) != nil {
		t.Errorf("%v of the types %v, not %v of the first type", got, tok.PairTypes(got), xlmPair)
	}
}

// TestBERTPairTypes: the second text and its separator have the second type, with each of the post-processors that
// Hugging Face writes for BERT; a single text has only the first.
func TestBERTPairTypes(t *testing.T) {
	for name, post := range map[string]string{
		"BertProcessing": `{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]}`,
		"TemplateProcessing": `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
			{"SpecialToken":{"id":"[SEP]","type_id":0}}],"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
			{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
			"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[2],"tokens":["[SEP]"]}}}`,
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{
			"tokenizer.json": `{"added_tokens":[{"id":0,"content":"[UNK]","special":true},{"id":1,"content":"[CLS]","special":true},
				{"id":2,"content":"[SEP]","special":true},{"id":3,"content":"[PAD]","special":true}],
				"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
				"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"post_processor":` + post + `,
				"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
					"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"[PAD]":3,"query":4,"document":5}}}`,
			"tokenizer_config.json": `{"tokenizer_class":"BertTokenizer","cls_token":"[CLS]","sep_token":"[SEP]","unk_token":"[UNK]","pad_token":"[PAD]"}`,
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tok := folderTokenizer(t, dir)
		got, want, types := tok.EncodePair("query query", "document"), []int32{1, 4, 4, 2, 5, 2}, []int32{0, 0, 0, 0, 1, 1}
		if !slices.Equal(got, want) || !slices.Equal(tok.PairTypes(got), types) {
			t.Errorf("%s: %v of the types %v, not %v of the types %v", name, got, tok.PairTypes(got), want, types)
		}
		if one := tok.Encode("query", true, true); tok.PairTypes(one) != nil {
			t.Errorf("%s: one text, %v, has the types %v", name, one, tok.PairTypes(one))
		}
	}
}
