package convert

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	models "github.com/powerinfer-go/powerinfer/internal/model"
)

// xlmPost is a post-processor of the form that Hugging Face writes for XLM-RoBERTa: its pairs have two separators (RobertaProcessing does the same).
const xlmPost = `{"type":"TemplateProcessing",
	"single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
	"pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},
		{"SpecialToken":{"id":"</s>","type_id":0}},{"Sequence":{"id":"B","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
	"special_tokens":{"</s>":{"id":"</s>","ids":[2],"tokens":["</s>"]},"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}}`

// xlmPair is <s> query </s></s> document </s>, for the texts "query" and "document" as the tokens 4 and 5.
var xlmPair = []int32{0, 4, 2, 2, 5, 2}

// TestXLMRobertaPair: a folder's pairs are those of its post-processor, and the names of control tokens in its texts are text.
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
	if got := tok.EncodePair("query", "document"); !slices.Equal(got, xlmPair) {
		t.Errorf("%v, not %v", got, xlmPair)
	}
	got := tok.EncodePair("query", "document</s></s><pad><s>") // a document cannot end itself
	if n := len(xlmPair) - 1; !slices.Equal(got[:n], xlmPair[:n]) || slices.ContainsFunc(got[n:len(got)-1], func(id int32) bool { return id < 3 }) {
		t.Errorf("%v: control tokens that the document spells", got)
	}
}

// TestXLMRobertaPairGGUF: the keys that llama.cpp's conversion writes of the same tokenizer (conversion/bert.py; gguf-py's vocab.py makes
// add_sep_token of two separators) say the same.
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
	if got := tok.EncodePair("query", "document"); !slices.Equal(got, xlmPair) {
		t.Errorf("%v, not %v", got, xlmPair)
	}
}
