package tokenizer

import (
	"slices"
	"testing"
)

// TestEnds: which tokens end a generation, by files' keys and families' names.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []string // control tokens after <unk>, <s>, </s> and "a", which have ids 0 to 3
		normal []string // those of them that the file calls normal
		eos    int32
		ends   []int32 // further ends in the file
		want   []string
	}{
		{"Llama 2", nil, nil, 2, nil, []string{"</s>"}},
		{"Llama 3", []string{"<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>"}, nil, 5, nil, []string{"</s>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"}},
		{"Llama 4", []string{"<|eot|>", "<|eom|>", "<|end_of_text|>"}, nil, 6, nil, []string{"</s>", "<|eot|>", "<|eom|>", "<|end_of_text|>"}},
		{"Gemma 3", []string{"<eos>", "<start_of_turn>", "<end_of_turn>"}, nil, 4, nil, []string{"</s>", "<eos>", "<end_of_turn>"}},
		{"Gemma 4", []string{"<eos>", "<|turn>", "<turn|>", "<|tool_response>", "<tool_response|>"}, nil, 4, nil, []string{"<eos>", "<turn|>", "<|tool_response>"}},
		{"Gemma 4 that names </s>", []string{"<turn|>", "<|tool_response>"}, nil, 2, nil, []string{"</s>", "<turn|>", "<|tool_response>"}},
		{"gpt-oss", []string{"<|return|>", "<|call|>", "<|end|>", "<|start|>", "<|channel|>", "<|endoftext|>"}, nil, 4, nil, []string{"</s>", "<|return|>", "<|call|>", "<|endoftext|>"}},
		{"gpt-oss that names <|end|>", []string{"<|return|>", "<|call|>", "<|end|>"}, nil, 6, []int32{6}, []string{"</s>", "<|return|>", "<|call|>"}},
		{"Solar Open", []string{"<|flush|>", "<|calls|>", "<|end|>"}, nil, 4, nil, []string{"</s>", "<|flush|>", "<|calls|>"}},
		{"Kimi K3", []string{"[EOS]", "<|open|>", "<|end_of_msg|>"}, nil, 4, nil, []string{"</s>", "[EOS]", "<|end_of_msg|>"}},
		{"Muse Glimmer", []string{"<|start|>", "<|message|>", "<|eom|>", "<|eot|>"}, nil, 7, nil, []string{"</s>", "<|eot|>"}},
		{"Phi 3", []string{"<|end|>", "<|user|>", "<|assistant|>", "<|endoftext|>"}, nil, 7, nil, []string{"</s>", "<|end|>", "<|endoftext|>"}},
		{"GLM 4", []string{"<|endoftext|>", "<|user|>", "<|assistant|>", "<|observation|>"}, nil, 4, nil, []string{"</s>", "<|endoftext|>", "<|user|>", "<|observation|>"}},
		{
			"Qwen Coder",
			[]string{"<|im_end|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"},
			nil, 4, nil,
			[]string{"</s>", "<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"},
		},
		{"Kimi K2", []string{"[EOS]", "[EOT]", "[PAD]", "<|im_end|>"}, nil, 4, nil, []string{"</s>", "[EOS]", "[EOT]", "[PAD]", "<|im_end|>"}},
		{"named only", []string{"<one>", "<two>", "<three>"}, nil, 4, []int32{6}, []string{"</s>", "<one>", "<three>"}},
		{"called normal", []string{"<|im_end|>", "[EOS]", "x"}, []string{"<|im_end|>", "[EOS]", "x"}, 2, nil, []string{"</s>", "<|im_end|>"}},
	} {
		v := Vocab{
			Model: "llama", Tokens: append([]string{"<unk>", "<s>", "</s>", "a"}, c.tokens...), Types: []int32{Unknown, Control, Control, Normal},
			BOS: 1, EOS: c.eos, EOT: -1, PAD: -1, Ends: c.ends,
		}
		for _, text := range c.tokens {
			kind := Control
			if slices.Contains(c.normal, text) {
				kind = Normal
			}
			v.Types = append(v.Types, kind)
		}
		types := slices.Clone(v.Types)
		tok, err := New(v)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for id := range int32(tok.Size()) {
			if tok.IsEOG(id) {
				got = append(got, tok.Text(id))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s ends at %q, not at %q", c.name, got, c.want)
		}
		if !slices.Equal(v.Types, types) {
			t.Errorf("%s: New changed its argument", c.name)
		}
	}
}

// TestNormalEnd: a token that ends a generation is a control token in a prompt, whatever type the file gives it, and
// has no text.
func TestNormalEnd(t *testing.T) {
	tok, err := New(Vocab{Model: "llama", Tokens: []string{"<unk>", "<s>", "</s>", "a", "<|im_end|>"}, Types: []int32{Unknown, Control, Control, Normal, Normal}, BOS: 1, EOS: 2, EOT: -1, PAD: -1})
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("a<|im_end|>", false, true); !slices.Equal(got, []int32{3, 4}) || len(tok.Piece(4, false)) != 0 {
		t.Errorf("%v, which says %q", got, tok.Piece(4, false))
	}
}
