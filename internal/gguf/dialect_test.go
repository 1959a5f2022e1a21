package gguf

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// described returns the file of those keys and tensors as it is read, each tensor of one row.
func described(t *testing.T, keys []KV, names ...string) *File {
	t.Helper()
	var tensors []*Tensor
	for _, name := range names {
		tensors = append(tensors, &Tensor{Name: name, Type: quant.F32, Shape: []int{2, 1}, Data: make([]byte, 8)})
	}
	f := Describe("other.gguf", "GGUF", keys, tensors)
	f.normalise()
	return f
}

func names(f *File) (list []string) {
	for _, t := range f.Tensors {
		if f.Tensor(t.Name) != t {
			list = append(list, "not found: "+t.Name)
		}
		list = append(list, t.Name)
	}
	return list
}

// TestDialectEmbeddings: EmbeddingGemma in Ollama's form calls itself gemma3.
func TestDialectEmbeddings(t *testing.T) {
	f := described(t, []KV{{archKey, "gemma3"}, {"gemma3.embedding_length", uint32(2)}}, "token_embd.weight", "dense.0.weight", "dense.1.weight", "norm.weight")
	if n, _, err := f.Uint("gemma-embedding.embedding_length"); f.arch() != "gemma-embedding" || n != 2 || err != nil {
		t.Errorf("%q, width %d, %v", f.arch(), n, err)
	}
	if got, want := names(f), []string{"token_embd.weight", "dense_2.weight", "dense_3.weight", "output_norm.weight"}; !slices.Equal(got, want) {
		t.Errorf("%q instead of %q", got, want)
	}
}

// TestDialectStretch: Ollama's files of Gemma 3's large models lack the keys of context scaling.
func TestDialectStretch(t *testing.T) {
	for context, want := range map[uint32]float64{32768: 0, 131072: 8} {
		f := described(t, []KV{{archKey, "gemma3"}, {"gemma3.context_length", context}}, "token_embd.weight")
		if v, _, err := f.Float("gemma3.rope.scaling.factor"); v != want || err != nil {
			t.Errorf("context %d: factor %g instead of %g, %v", context, v, want, err)
		}
	}
}

// TestDialectTokenizers: the pre-tokenizer of models with files that name none or the default, and normalizations in
// base64, one character per text.
func TestDialectTokenizers(t *testing.T) {
	tokens := make([]string, 128010)
	for i := range tokens {
		tokens[i] = fmt.Sprint(i)
	}
	llama2 := []KV{{archKey, "llama"}, {preKey, "default"}, {"tokenizer.ggml.tokens", slices.Clone(tokens)}}
	tokens[128009] = "<|eot_id|>"
	llama3 := []KV{{archKey, "llama"}, {"tokenizer.ggml.tokens", tokens}}
	for want, keys := range map[string][]KV{"default": llama2, "llama-bpe": llama3, "gpt-4o": {{archKey, "gptoss"}, {preKey, "default"}}, "mine": {{archKey, "gptoss"}, {preKey, "mine"}}} {
		if got, _, err := described(t, keys, "token_embd.weight").String(preKey); got != want || err != nil {
			t.Errorf("%q instead of %q, %v", got, want, err)
		}
	}
	var letters []string
	for _, c := range base64.StdEncoding.EncodeToString([]byte{0, 255, 7}) {
		letters = append(letters, string(c))
	}
	f := described(t, []KV{{archKey, "bert"}, {"tokenizer.ggml.precompiled_charsmap", letters}}, "token_embd.weight")
	if got, _, err := f.Int32s("tokenizer.ggml.precompiled_charsmap"); !slices.Equal(got, []int32{0, 255, 7}) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestDialectKeeps: llama.cpp's names stay, and files without a text model do not change.
func TestDialectKeeps(t *testing.T) {
	f := described(t, []KV{{archKey, "gptoss"}, {"gptoss.rope.freq_base", float32(1)}, {"gpt-oss.rope.freq_base", float32(2)}}, "token_embd.weight", "blk.0.attn_out.weight", "blk.0.attn_output.weight")
	if v, _, err := f.Float("gpt-oss.rope.freq_base"); v != 2 || err != nil {
		t.Errorf("%g, %v", v, err)
	}
	if got, want := names(f), []string{"token_embd.weight", "blk.0.attn_out.weight", "blk.0.attn_output.weight"}; !slices.Equal(got, want) {
		t.Errorf("%q instead of %q", got, want)
	}
	projector := []string{"v.blk.0.attn_out.weight", "mm.0.weight"}
	if got := names(described(t, []KV{{archKey, "clip"}}, projector...)); !slices.Equal(got, projector) {
		t.Errorf("%q instead of %q", got, projector)
	}
}
