package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// engineTokenizer builds the engine's tokenizer from the vocabulary of g.
func engineTokenizer(t *testing.T, g *gguf.File) *tokenizer.Tokenizer {
	t.Helper()
	v := tokenizer.Vocab{Model: "llama", UNK: 0, BOS: 1, EOS: 2, EOT: -1, PAD: -1, AddBOS: true, AddSpacePrefix: true}
	var err error
	if v.Tokens, _, err = g.Strings("tokenizer.ggml.tokens"); err != nil {
		t.Fatal(err)
	}
	if v.Scores, _, err = g.Float32s("tokenizer.ggml.scores"); err != nil {
		t.Fatal(err)
	}
	if v.Types, _, err = g.Int32s("tokenizer.ggml.token_type"); err != nil {
		t.Fatal(err)
	}
	out, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// byRank encodes a word as Hugging Face's BPE does: of the listed pairs, the one of lowest rank is merged first,
// leftmost among equals; unknown characters then become bytes.
func byRank(ids map[string]int, ranks map[string]int, word string) []int32 {
	symbols := strings.Split("▁"+word, "")
	for {
		at, best := -1, 0
		for i := range len(symbols) - 1 {
			if r, ok := ranks[symbols[i]+" "+symbols[i+1]]; ok && (at < 0 || r < best) {
				at, best = i, r
			}
		}
		if at < 0 {
			break
		}
		symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
	}
	var out []int32
	for _, s := range symbols {
		if id, ok := ids[s]; ok {
			out = append(out, int32(id))
			continue
		}
		for _, b := range []byte(s) {
			out = append(out, int32(ids[fmt.Sprintf("<0x%02X>", b)]))
		}
	}
	return out
}

// The demo model's tokenizer read from tokenizer.model and from tokenizer.json gives the published ids both ways, and
// on real text the ids that the merges of tokenizer.json give.
func TestDemoTokenizer(t *testing.T) {
	hf := demotest.HuggingFace(t)
	var reference struct {
		Cases []struct {
			Text string  `json:"text"`
			IDs  []int32 `json:"ids"`
		} `json:"tokenizer_cases"`
	}
	if err := checkpoint.ReadJSON(filepath.Join(hf, "reference.json"), &reference); err != nil || len(reference.Cases) == 0 {
		t.Fatalf("reference.json: %v, %d cases", err, len(reference.Cases))
	}
	// The same folder without tokenizer.model.
	plain := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} {
		if err := symlink(filepath.Join(hf, name), filepath.Join(plain, name)); err != nil {
			t.Skip(err)
		}
	}
	o := Options{Output: OutputOf(quant.F16), Notes: func(s string) { t.Errorf("note: %s", s) }}
	text, err := os.ReadFile(testenv.Shared(t, "tales/japanese.txt"))
	if err != nil {
		t.Fatal(err)
	}
	ids, ranks := readMerges(t, filepath.Join(hf, "tokenizer.json"))
	for _, dir := range []string{hf, plain} {
		tok := engineTokenizer(t, convertTo(t, dir, o))
		for _, c := range reference.Cases {
			// The reference puts the space prefix even before the empty text; llama.cpp and Hugging Face do not.
			if got := tok.Encode(c.Text, false, false); c.Text != "" && !slices.Equal(got, c.IDs) {
				t.Errorf("%s: %q gives %v, want %v", dir, c.Text, got, c.IDs)
			}
		}
		for word := range strings.FieldsSeq(string(text[:200_000])) {
			if got, want := tok.Encode(word, false, false), byRank(ids, ranks, word); !slices.Equal(got, want) {
				t.Errorf("%s: %q gives %v, by rank %v", dir, word, got, want)
			}
		}
	}
}

// readMerges reads vocabulary and merge ranks of a tokenizer.json.
func readMerges(t *testing.T, path string) (ids, ranks map[string]int) {
	t.Helper()
	var j struct {
		Model struct {
			Vocab  map[string]int `json:"vocab"`
			Merges []string       `json:"merges"`
		} `json:"model"`
	}
	if err := checkpoint.ReadJSON(path, &j); err != nil {
		t.Fatal(err)
	}
	ranks = map[string]int{}
	for i, m := range j.Model.Merges {
		ranks[m] = i
	}
	return j.Model.Vocab, ranks
}

func TestSentencePieceFlags(t *testing.T) {
	// A normalizer that adds no dummy prefix and keeps runs of spaces.
	model := append(sentencePieceModel(4), 3<<3|2, 4, 3<<3, 0, 4<<3, 0)
	m, err := parseSentencePiece(model)
	if err != nil {
		t.Fatal(err)
	}
	want := []piece{{"<unk>", 0, tokenUnknown}, {"<s>", -1, tokenControl}, {"</s>", -2, tokenControl}, {"▁w3", -3, tokenNormal}}
	if !slices.Equal(m.pieces, want) || m.kind != modelBPE || m.dummyPrefix || m.squeeze {
		t.Errorf("model %+v", m)
	}
}

func FuzzSentencePiece(f *testing.F) {
	f.Add(sentencePieceModel(5))
	f.Add([]byte("IQ== 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseSentencePiece(b)
		if err == nil && (len(m.pieces) == 0 || len(m.pieces) > len(b)) {
			t.Fatalf("%d pieces from %d bytes", len(m.pieces), len(b))
		}
	})
}

// byteLevelJSON returns a small byte-level BPE with the given pre-tokenizer and post-processor.
func byteLevelJSON(pre, post string) []byte {
	return fmt.Appendf(nil, `{"added_tokens":[{"id":4,"content":"<|begin|>","special":true},{"id":5,"content":"<tool>","special":false}],
		"normalizer":{"type":"NFC"},"pre_tokenizer":%s,"post_processor":%s,
		"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"Ġab":3,"Ġ":6},"merges":[["a","b"],["Ġ","ab"]]}}`, pre, post)
}

// The patterns below are copied from the published tokenizer.json files of Llama 3, Qwen 2, GPT-2 and Falcon.
const (
	llama3Pre = `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`
	qwen2Pre  = `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}]}`
	gpt2Pre   = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true}`
	falconPre = `{"type":"Sequence","pretokenizers":[{"type":"Punctuation","behavior":"Contiguous"},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},{"type":"Digits","individual_digits":false},{"type":"Split","pattern":{"Regex":"[0-9][0-9][0-9]"},"behavior":"Isolated","invert":false}]}`
	withBOS   = `{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|begin|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]}]}`
)

func TestByteLevel(t *testing.T) {
	for pre, want := range map[string]string{llama3Pre: "llama-bpe", qwen2Pre: "qwen2", gpt2Pre: "gpt-2", falconPre: "falcon"} {
		t.Run(want, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"bos_token_id": 4, "eos_token_id": []int{2, 3}})
			f.save(t, 1, tinyVocab)
			remove(t, f, "tokenizer.model")
			text := byteLevelJSON(pre, withBOS)
			if want == "llama-bpe" {
				text = bytes.Replace(text, []byte(`"type":"BPE"`), []byte(`"type":"BPE","ignore_merges":true`), 1)
			}
			f.write(t, "tokenizer.json", text)
			f.writeJSON(t, "tokenizer_config.json", map[string]any{"bos_token": "<|begin|>", "chat_template": []any{
				map[string]any{"name": "default", "template": "D"}, map[string]any{"name": "tools", "template": "T"},
			}})
			g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16)})
			for key, want := range map[string]any{
				"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": want, "tokenizer.ggml.merges": []string{"a b", "Ġ ab"},
				"tokenizer.ggml.bos_token_id": uint32(4), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.add_bos_token": true,
				"tokenizer.ggml.add_eos_token": false, "tokenizer.ggml.scores": nil, "tokenizer.ggml.add_space_prefix": nil,
				"tokenizer.chat_template": "D", "tokenizer.chat_template.tools": "T",
			} {
				expectKey(t, g, key, want)
			}
			tokens, _ := g.Lookup("tokenizer.ggml.tokens")
			if got := tokens.([]string)[:8]; !slices.Equal(got, []string{"a", "b", "ab", "Ġab", "<|begin|>", "<tool>", "Ġ", "[PAD7]"}) {
				t.Errorf("tokens %q", got)
			}
			types, _ := g.Lookup("tokenizer.ggml.token_type")
			if got := types.([]int32)[:8]; !slices.Equal(got, []int32{1, 1, 1, 1, tokenControl, tokenUser, 1, tokenUnused}) {
				t.Errorf("types %v", got)
			}
		})
	}
}

// OPT's folders hold vocab.json and merges.txt, and name their special tokens only in the configuration.
func TestVocabAndMerges(t *testing.T) {
	f := tinyOPT(t)
	f.save(t, 1, tinyVocab)
	remove(t, f, "tokenizer.model")
	f.writeJSON(t, "vocab.json", map[string]int{"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5})
	f.write(t, "merges.txt", []byte("#version: 0.2\na b\n"))
	f.writeJSON(t, "tokenizer_config.json", map[string]any{
		"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true,
		"bos_token": map[string]any{"content": "</s>"}, "eos_token": map[string]any{"content": "</s>"}, "pad_token": "<pad>",
	})
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16)})
	for key, want := range map[string]any{
		"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": []string{"a b"}, "tokenizer.ggml.bos_token_id": uint32(2),
		"tokenizer.ggml.padding_token_id": uint32(1), "tokenizer.ggml.add_bos_token": true,
	} {
		expectKey(t, g, key, want)
	}
	types, _ := g.Lookup("tokenizer.ggml.token_type")
	if got := types.([]int32)[:4]; !slices.Equal(got, []int32{tokenNormal, tokenControl, tokenControl, tokenNormal}) {
		t.Errorf("types %v", got)
	}
}

func TestAddedTokens(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"eos_token_id": 2})
	f.save(t, 1, 40)
	f.writeJSON(t, "added_tokens.json", map[string]int{"<|im_end|>": 41, "▁tag": 42, "beyond": tinyVocab})
	f.writeJSON(t, "tokenizer_config.json", map[string]any{"added_tokens_decoder": map[string]any{
		"0": map[string]any{"content": "<unk>", "special": true}, "43": map[string]any{"content": "[X]", "special": true},
	}})
	f.write(t, "chat_template.jinja", []byte("{{ messages }}"))
	var notes []string
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16), Notes: func(s string) { notes = append(notes, s) }})
	tokens, _ := g.Lookup("tokenizer.ggml.tokens")
	types, _ := g.Lookup("tokenizer.ggml.token_type")
	if got := tokens.([]string)[40:45]; !slices.Equal(got, []string{"[PAD40]", "<|im_end|>", " tag", "[X]", "[PAD44]"}) {
		t.Errorf("tokens %q", got)
	}
	if got := types.([]int32)[40:45]; !slices.Equal(got, []int32{tokenUnused, tokenControl, tokenUser, tokenControl, tokenUnused}) || types.([]int32)[0] != tokenUnknown {
		t.Errorf("types %v", types)
	}
	expectKey(t, g, "tokenizer.ggml.eot_token_id", uint32(41))
	expectKey(t, g, "tokenizer.chat_template", "{{ messages }}")
	if len(notes) != 1 || !strings.Contains(notes[0], `added token "beyond" is left out: id 48`) {
		t.Errorf("notes %q", notes)
	}
}

// TestHugeTokenIDs: an id beyond 32 bits is refused instead of being truncated to another token.
func TestHugeTokenIDs(t *testing.T) {
	for name, text := range map[string]string{
		"added_tokens.json":     `{"huge":4294967299}`,
		"tokenizer_config.json": `{"added_tokens_decoder":{"4294967299":{"content":"huge","special":true}}}`,
	} {
		f := tinyLlama(t, "LlamaForCausalLM", nil)
		f.save(t, 1, tinyVocab)
		f.write(t, name, []byte(text))
		expectError(t, HuggingFace(t.Context(), f.dir, filepath.Join(t.TempDir(), "out.gguf"), Options{Output: OutputOf(quant.F16)}), "4294967299")
	}
}

func TestBadTokenizers(t *testing.T) {
	for _, c := range []struct{ name, json, want string }{
		{"unigram", `{"model":{"type":"Unigram","vocab":[["a",0]]}}`, `the vocabulary lacks the unknown token of a Unigram model`},
		{"other model", `{"model":{"type":"Lattice","vocab":{"a":0}}}`, `key "model.type": "Lattice" is not supported; BPE, Unigram, WordPiece and WordLevel are`},
		{"unknown pattern", string(byteLevelJSON(strings.Replace(qwen2Pre, "(?i:'s", `(a)\\1|(?i:'s`, 1), "null")), `pre_tokenizer Split: pattern`},
		{"normalizer", strings.Replace(string(byteLevelJSON(gpt2Pre, "null")), "NFC", "NFX", 1), `normalizer NFX: this normalizer is not supported`},
		{"post-processor", string(byteLevelJSON(gpt2Pre, `{"type":"Wonder"}`)), `post_processor "Wonder" is not supported`},
		{"id", `{"model":{"vocab":{"a":48},"merges":[]}}`, `token "a": id 48 is outside the 48 rows of the embedding`},
		{"two of one id", `{"model":{"vocab":{"a":1,"b":1},"merges":[]}}`, `two tokens have the id 1`},
		{"merge", `{"model":{"vocab":{"a":1},"merges":["a"]}}`, `merge 0 ["a"] is not a pair`},
		{"merge of no token", `{"model":{"byte_fallback":true,"vocab":{"a":1},"merges":["a a"]}}`, `merge 0 makes "aa", which is no token`},
		{"no merges", `{"model":{"vocab":{"a":1}}}`, `key "model.merges" is missing`},
		{"cut", `{"model":`, `tokenizer.json: offset 9: unexpected end of JSON input`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", nil)
			f.save(t, 1, tinyVocab)
			remove(t, f, "tokenizer.model")
			f.write(t, "tokenizer.json", []byte(c.json))
			expectError(t, HuggingFace(t.Context(), f.dir, filepath.Join(t.TempDir(), "out.gguf"), Options{Output: OutputOf(quant.F16)}), c.want)
		})
	}
}

// TestTemplateTokens: a token that only tokenizer_config.json calls special is not special in a text, as in Hugging
// Face's library, but it is in a chat template's output.
func TestTemplateTokens(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json": `{"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
			"model":{"type":"BPE","unk_token":"<","vocab":{"<":0,"x":1,">":2,"<x>":3,"y":4},"merges":[]}}`,
		"tokenizer_config.json": `{"added_tokens_decoder":{"3":{"content":"<x>","special":true}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok := folderTokenizer(t, dir)
	if got := tok.Encode("<x>y", false, true); !slices.Equal(got, []int32{0, 1, 2, 4}) {
		t.Errorf("in a text: %v", got)
	}
	if got := tok.EncodeTemplate("<x>y"); !slices.Equal(got, []int32{3, 4}) {
		t.Errorf("in a template's: %v", got)
	}
}
