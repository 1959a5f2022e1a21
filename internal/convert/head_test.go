package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestStoredHeads: a stored head is used, with a note, if it differs from the tied embedding, whatever their types are.
// A copy of the embedding is not written twice.
func TestStoredHeads(t *testing.T) {
	for _, c := range []struct {
		name   string
		dtype  string
		change func(values []float32)
		rows   int
		want   bool
		note   string
	}{
		{"the embedding again", "F32", func([]float32) {}, tinyVocab, false, ""},
		{"one other element", "F32", func(v []float32) { v[len(v)-1]++ }, tinyVocab, true, "lm_head.weight differs from the embedding and is the head"},
		{"the embedding in another type", "BF16", func(v []float32) {}, tinyVocab, false, ""},
		{"another in another type", "BF16", func(v []float32) { v[7] = -v[7] - 1 }, tinyVocab, true, "lm_head.weight differs"},
		{"of another form", "F32", func([]float32) {}, tinyVocab - 1, false, "lm_head.weight is left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"tie_word_embeddings": true})
			embedding := f.tensors["model.embed_tokens.weight"]
			for i, v := range embedding.values { // which BF16 holds
				embedding.values[i] = float32(int(v*8)) / 8
			}
			head := fixture{dtype: c.dtype, shape: []int{c.rows, tinyEmbd}, values: slices.Clone(embedding.values[:c.rows*tinyEmbd])}
			c.change(head.values)
			f.tensors["lm_head.weight"] = head
			f.save(t, 1, tinyVocab)
			var notes []string
			g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32), Notes: func(s string) { notes = append(notes, s) }})
			if has := g.Tensor("output.weight") != nil; has != c.want {
				t.Fatalf("there is an output.weight: %v", has)
			}
			if c.want {
				expectValues(t, g, "output.weight", head.values)
			}
			if all := strings.Join(notes, "\n"); c.note == "" && all != "" || !strings.Contains(all, c.note) {
				t.Errorf("notes %q lack %q", notes, c.note)
			}
		})
	}
}

// TestLeftOutNamed: parts of a checkpoint that are left out are named, once and in a line.
func TestLeftOutNamed(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	for i := range 5 {
		f.random("F32", fmt.Sprintf("model.layers.%d.self_attn.rotary_emb.inv_freq", i), 4)
	}
	f.save(t, 1, tinyVocab)
	var notes []string
	convertTo(t, f.dir, Options{Output: OutputOf(quant.F32), Notes: func(s string) { notes = append(notes, s) }})
	if len(notes) != 1 || !strings.HasSuffix(notes[0], "5 tensors that computing does not need are left out: model.layers.0.self_attn.rotary_emb.inv_freq, model.layers.1.self_attn.rotary_emb.inv_freq, model.layers.2.self_attn.rotary_emb.inv_freq and 2 more") {
		t.Errorf("%q", notes)
	}
}

// TestOutputFor: the type is that of most elements of matrices, without F32.
func TestOutputFor(t *testing.T) {
	for _, c := range []struct {
		types map[string]int // rows of each
		want  quant.Type
	}{
		{map[string]int{"BF16": 9, "F16": 8}, quant.BF16},
		{map[string]int{"BF16": 8, "F16": 9}, quant.F16},
		{map[string]int{"F32": 90, "BF16": 1}, quant.BF16},
		{map[string]int{"F32": 90}, quant.F16},
		{map[string]int{"F8_E4M3": 9, "F16": 1}, quant.BF16},
	} {
		f := newFolder(t, map[string]any{})
		f.random("F16", "a.norm.weight", 4096) // a vector
		for name, rows := range c.types {
			values := make([]float32, rows*4)
			f.tensors[name] = fixture{dtype: name, shape: []int{rows, 4}, values: values}
		}
		f.save(t, 1, tinyVocab)
		if got, err := OutputFor(f.dir); err != nil || got != OutputOf(c.want) {
			t.Errorf("%v: %s, %v", c.types, got, err)
		}
	}
}

// TestAdditionalTemplates: templates of the folder additional_chat_templates are in the file by name.
func TestAdditionalTemplates(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	f.save(t, 1, tinyVocab)
	f.write(t, "chat_template.jinja", []byte("usual"))
	if err := os.Mkdir(filepath.Join(f.dir, "additional_chat_templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.write(t, "additional_chat_templates/tool_use.jinja", []byte("tools"))
	f.write(t, "additional_chat_templates/rag-v2.jinja", []byte("documents"))
	f.write(t, "additional_chat_templates/README.md", []byte("no template"))
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
	expectKey(t, g, "tokenizer.chat_template", "usual")
	expectKey(t, g, "tokenizer.chat_template.tool_use", "tools")
	expectKey(t, g, "tokenizer.chat_template.rag_v2", "documents")
	if names, _, err := g.Strings("tokenizer.chat_templates"); err != nil || !slices.Equal(names, []string{"rag_v2", "tool_use"}) {
		t.Errorf("%q, %v", names, err)
	}
}
