package convert

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestEndsOfFolder: every end token of the configurations is written, in the three keys that llama.cpp reads and in a
// list. The folders' files are those of published models, with ids of a small vocabulary.
func TestEndsOfFolder(t *testing.T) {
	for _, c := range []struct {
		name            string
		tokens          []string // special, from id 40 on
		config          map[string]any
		eos             string // of tokenizer_config.json
		generation      any
		eosID, eot, eom any // nil: not written
		list            any
	}{
		{"Llama 2", nil, map[string]any{"eos_token_id": 2}, "</s>", map[string]any{"eos_token_id": 2}, uint32(2), nil, nil, nil},
		{
			"Llama 3",
			[]string{"<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"},
			map[string]any{"eos_token_id": []int{41, 42, 43}},
			"<|eot_id|>",
			map[string]any{"eos_token_id": []int{41, 42, 43}},
			uint32(43), uint32(41), uint32(42),
			[]int32{43, 41, 42},
		},
		{
			"Gemma 4",
			[]string{"<|turn>", "<turn|>", "<|tool_response>"},
			map[string]any{"eos_token_id": 2},
			"</s>",
			map[string]any{"eos_token_id": []int{2, 41, 42}},
			uint32(2), uint32(41), uint32(42),
			[]int32{2, 41, 42},
		},
		{
			"gpt-oss",
			[]string{"<|return|>", "<|call|>", "<|end|>", "<|endoftext|>"},
			map[string]any{"eos_token_id": 40},
			"<|return|>",
			map[string]any{"eos_token_id": []int{40, 43, 41}},
			uint32(40), uint32(43), uint32(41),
			[]int32{40, 43, 41},
		},
		{
			"Phi 3",
			[]string{"<|endoftext|>", "<|end|>"},
			map[string]any{"eos_token_id": 40},
			"<|endoftext|>",
			map[string]any{"eos_token_id": []int{40, 41}},
			uint32(40), uint32(41), nil,
			[]int32{40, 41},
		},
		{"only generation_config.json", []string{"<x>", "<y>"}, nil, "", map[string]any{"eos_token_id": []any{41, 40, nil, 1000}}, uint32(41), uint32(40), nil, []int32{41, 40}},
		{"another family's id", []string{"<|im_end|>"}, map[string]any{"eos_token_id": 5}, "<|im_end|>", map[string]any{}, uint32(40), nil, nil, nil},
		{"named twice", []string{"<|im_end|>"}, map[string]any{"eos_token_id": 40}, "<|im_end|>", map[string]any{"eos_token_id": 40}, uint32(40), nil, nil, nil},
	} {
		f := tinyLlama(t, "LlamaForCausalLM", nil)
		delete(f.config, "eos_token_id")
		maps.Copy(f.config, c.config)
		f.save(t, 1, 40)
		decoder := map[string]any{}
		for i, text := range c.tokens {
			decoder[string([]byte{'4', '0' + byte(i)})] = map[string]any{"content": text, "special": true}
		}
		special := map[string]any{"added_tokens_decoder": decoder}
		if c.eos != "" {
			special["eos_token"] = c.eos
		}
		f.writeJSON(t, "tokenizer_config.json", special)
		f.writeJSON(t, "generation_config.json", c.generation)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16)})
		t.Run(c.name, func(t *testing.T) {
			expectKey(t, g, "tokenizer.ggml.eos_token_id", c.eosID)
			expectKey(t, g, "tokenizer.ggml.eot_token_id", c.eot)
			expectKey(t, g, "tokenizer.ggml.eom_token_id", c.eom)
			expectKey(t, g, "tokenizer.ggml.eos_token_ids", c.list)
		})
	}
}

// TestEndsOfParts: if the text model is a part of a folder, the whole folder's end tokens count, too.
func TestEndsOfParts(t *testing.T) {
	v := &vocabulary{tokens: []string{"<unk>", "<s>", "</s>", "<end_of_turn>", "x"}, types: []int32{tokenUnknown, tokenControl, tokenControl, tokenControl, tokenNormal}}
	c := &config{}
	c.EOS, c.outerEOS = []byte("2"), []byte("[2,3,4]")
	v.findSpecials(&tokenizerConfig{}, c, nil, func(string) {})
	if !slices.Equal(v.ends, []int32{2, 3}) {
		t.Errorf("ends %v", v.ends)
	}
}

// TestSamplingOfFolder: the values of generation_config.json become general.sampling.*; wrong ones give a note.
func TestSamplingOfFolder(t *testing.T) {
	convert := func(text string) (map[string]any, []string) {
		f := tinyLlama(t, "LlamaForCausalLM", nil)
		f.save(t, 1, tinyVocab)
		f.write(t, "generation_config.json", []byte(text))
		var notes []string
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16), Notes: func(s string) { notes = append(notes, s) }})
		said := map[string]any{}
		for _, kv := range g.Keys {
			if name, ok := strings.CutPrefix(kv.Key, "general.sampling."); ok {
				said[name] = kv.Value
			}
		}
		return said, notes
	}
	said, notes := convert(`{"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0,"repetition_penalty":1.05,"xtc_probability":0.5,"xtc_threshold":0.1,
		"penalty_last_n":-1,"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.2,"sequence":"top_k;temperature","max_new_tokens":2048,"eos_token_id":[2,3]}`)
	want := map[string]any{
		"temp": float32(0.6), "top_k": int32(20), "top_p": float32(0.95), "min_p": float32(0), "penalty_repeat": float32(1.05), "xtc_probability": float32(0.5), "xtc_threshold": float32(0.1),
		"penalty_last_n": int32(-1), "mirostat": int32(2), "mirostat_tau": float32(4), "mirostat_eta": float32(0.2), "sequence": "top_k;temperature",
	}
	if !maps.Equal(said, want) || len(notes) != 0 {
		t.Errorf("%v, want %v; notes %q", said, want, notes)
	}
	said, notes = convert(`{"temperature":null,"top_k":1.5,"top_p":"much","min_p":0.1}`)
	if !maps.Equal(said, map[string]any{"min_p": float32(0.1)}) || len(notes) != 2 || !strings.Contains(notes[0], `"top_k": 1.5`) || !strings.Contains(notes[1], `"top_p": "much"`) {
		t.Errorf("%v, notes %q", said, notes)
	}
	said, notes = convert(`{"temperature":0.6,}`)
	if len(said) != 0 || len(notes) != 1 || !strings.Contains(notes[0], "generation_config.json: offset") {
		t.Errorf("%v, notes %q", said, notes)
	}
}
