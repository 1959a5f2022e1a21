package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// metadata reads the keys of a trusted GGUF file (GGUF's specification, v3): just enough for a vocabulary, because this
// package is below the one that reads files.
func metadata(t testing.TB, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 8
	u64 := func() int { at += 8; return int(binary.LittleEndian.Uint64(data[at-8:])) }
	u32 := func() int { at += 4; return int(binary.LittleEndian.Uint32(data[at-4:])) }
	text := func() string { n := u64(); at += n; return string(data[at-n : at]) }
	keys := map[string]any{}
	_, count := u64(), u64()
	var value func(kind int) any
	value = func(kind int) any {
		switch kind {
		case 4, 5, 6: // uint32, int32, float32
			return uint32(u32())
		case 7: // bool
			at++
			return data[at-1] != 0
		case 8:
			return text()
		case 9:
			kind, n := u32(), u64()
			list := make([]any, n)
			for i := range list {
				list[i] = value(kind)
			}
			return list
		}
		t.Fatalf("%s: kind %d", path, kind)
		return nil
	}
	for range count {
		key := text()
		keys[key] = value(u32())
	}
	return keys
}

// vocabulary builds a Vocab from a GGUF file's keys, with llama.cpp's defaults.
func vocabulary(t testing.TB, path string) Vocab {
	keys := metadata(t, path)
	v := Vocab{Model: keys["tokenizer.ggml.model"].(string)}
	v.Pre, _ = keys["tokenizer.ggml.pre"].(string)
	id := func(name string, def int32) int32 {
		if x, ok := keys["tokenizer.ggml."+name+"_token_id"].(uint32); ok {
			return int32(x)
		}
		return def
	}
	v.BOS, v.EOS, v.UNK, v.EOT, v.PAD = id("bos", -1), id("eos", -1), id("unknown", -1), id("eot", -1), id("padding", -1)
	spm := v.Model == "llama"
	if v.AddBOS, v.AddSpacePrefix = spm, spm; spm {
		v.BOS, v.EOS, v.UNK = id("bos", 1), id("eos", 2), id("unknown", 0)
	}
	if add, ok := keys["tokenizer.ggml.add_bos_token"].(bool); ok {
		v.AddBOS = add
	}
	for _, x := range keys["tokenizer.ggml.tokens"].([]any) {
		v.Tokens = append(v.Tokens, x.(string))
	}
	list := func(name string) []any { l, _ := keys["tokenizer.ggml."+name].([]any); return l }
	for _, x := range list("merges") {
		v.Merges = append(v.Merges, x.(string))
	}
	for _, x := range list("token_type") {
		v.Types = append(v.Types, int32(x.(uint32)))
	}
	if spm {
		for _, x := range list("scores") {
			v.Scores = append(v.Scores, math.Float32frombits(x.(uint32)))
		}
	}
	return v
}

func fileTokenizer(t testing.TB, path string) *Tokenizer {
	t.Helper()
	tok, err := New(vocabulary(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestVectors compares with the ids that Hugging Face's tokenizers gave llama.cpp's test texts, without special tokens.
func TestVectors(t *testing.T) {
	dir := testenv.Shared(t, "vocab")
	inputs, err := filepath.Glob(filepath.Join(dir, "*.gguf.inp"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no vectors in %s: %v", dir, err)
	}
	for _, inp := range inputs {
		path := strings.TrimSuffix(inp, ".inp")
		t.Run(filepath.Base(path), func(t *testing.T) {
			tok := fileTokenizer(t, path)
			texts := strings.Split(read(t, inp), "\n__ggml_vocab_test__\n")
			want := strings.Split(strings.TrimSuffix(read(t, path+".out"), "\n"), "\n")
			if last := len(texts) - 1; len(texts) == len(want)+1 && texts[last] == "" {
				texts = texts[:last]
			}
			if len(texts) != len(want) {
				t.Fatalf("%d texts, %d lines of ids", len(texts), len(want))
			}
			for i, text := range texts {
				ids := tok.Encode(text, false, false)
				var got []string
				for _, id := range ids {
					got = append(got, strconv.Itoa(int(id)))
				}
				if strings.Join(got, " ") != strings.TrimSpace(want[i]) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, want[i])
				}
				expectDecoded(t, tok, text, ids)
			}
		})
	}
}

// expectDecoded checks that ids say text, after SentencePiece's space.
func expectDecoded(t testing.TB, tok *Tokenizer, text string, ids []int32) {
	t.Helper()
	want := text
	if tok.v.AddSpacePrefix && text != "" {
		want = " " + text
	}
	if got := tok.Decode(ids, false); got != want {
		t.Errorf("decoded %q, want %q", got, want)
	}
	s := tok.NewStream(false)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Push(id))
	}
	if b.String() != want {
		t.Errorf("streamed %q, want %q", b.String(), want)
	}
}

// TestSpecialTokens checks what llama-tokenize does: control tokens when asked, and a space after each of them.
func TestSpecialTokens(t *testing.T) {
	dir := testenv.Shared(t, "vocab")
	spm := fileTokenizer(t, filepath.Join(dir, "ggml-vocab-llama-spm.gguf"))
	gpt2 := fileTokenizer(t, filepath.Join(dir, "ggml-vocab-gpt-2.gguf"))
	hello := spm.Encode("Hello", false, false)
	for _, c := range []struct {
		tok               *Tokenizer
		text              string
		addSpecial, parse bool
		want              []int32
	}{
		{spm, "", true, true, []int32{1}},
		{spm, "", false, true, nil},
		{spm, "Hello", true, true, append([]int32{1}, hello...)},
		{spm, "<s>Hello</s>Hello", false, true, slices.Concat([]int32{1}, hello, []int32{2}, hello)},
		{spm, "<unk>", false, true, []int32{0}},
		{gpt2, "<|endoftext|>Hello", false, true, []int32{50256, 15496}},
		{gpt2, "<|endoftext|>", false, false, []int32{27, 91, 437, 1659, 5239, 91, 29}}, // GPT-2's well-known ids
	} {
		if got := c.tok.Encode(c.text, c.addSpecial, c.parse); !slices.Equal(got, c.want) {
			t.Errorf("%q (addSpecial %v, parseSpecial %v): %v, want %v", c.text, c.addSpecial, c.parse, got, c.want)
		}
	}
	if got := spm.Encode("a<s>b", false, false); slices.Contains(got, 1) {
		t.Errorf("a control token was read from plain text: %v", got)
	}
	if !spm.IsEOG(2) || spm.IsEOG(1) || !gpt2.IsEOG(50256) {
		t.Error("wrong tokens end a generation")
	}
	if got := string(spm.Piece(1, true)) + string(spm.Piece(1, false)); got != "<s>" {
		t.Errorf("BOS with and without special: %q", got)
	}
}

// TestDemoModel compares with the ids of the library that the demo model was trained with.
func TestDemoModel(t *testing.T) {
	dir := testenv.Shared(t, "demo-model")
	v := sentencePieceJSON(t, filepath.Join(dir, "tokenizer.json"))
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Text   string
		IDs    []int32
		Pieces []string
		Cases  []struct {
			Text string
			IDs  []int32
		} `json:"tokenizer_cases"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "reference.json"))), &ref); err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode(ref.Text, true, false); !slices.Equal(got, ref.IDs) {
		t.Errorf("%q: %v, want %v", ref.Text, got, ref.IDs)
	}
	for i, id := range ref.IDs {
		if tok.Text(id) != ref.Pieces[i] {
			t.Errorf("token %d is %q, want %q", id, tok.Text(id), ref.Pieces[i])
		}
	}
	for _, c := range ref.Cases {
		if c.Text == "" {
			continue // the library makes a lone space of it; llama.cpp, and its vectors, nothing
		}
		if got := tok.Encode(c.Text, false, false); !slices.Equal(got, c.IDs) {
			t.Errorf("%q: %v, want %v", c.Text, got, c.IDs)
		}
	}
}

// sentencePieceJSON builds the vocabulary of a SentencePiece model that tokenizer.json describes: there a merge's
// place in the list is what its score is in the model.
func sentencePieceJSON(t testing.TB, path string) Vocab {
	var file struct {
		Model struct {
			Vocab  map[string]int32
			Merges []json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(read(t, path)), &file); err != nil {
		t.Fatal(err)
	}
	n := len(file.Model.Vocab)
	v := Vocab{
		Model: "llama", Tokens: make([]string, n), Scores: make([]float32, n), Types: make([]int32, n),
		BOS: 1, EOS: 2, UNK: 0, EOT: -1, PAD: -1, AddBOS: true, AddSpacePrefix: true,
	}
	for text, id := range file.Model.Vocab {
		v.Tokens[id], v.Types[id], v.Scores[id] = text, Normal, -1e6
		if _, ok := byteOf(text); ok {
			v.Types[id] = Byte
		}
	}
	v.Types[0], v.Types[1], v.Types[2] = Unknown, Control, Control
	for rank, raw := range file.Model.Merges {
		var pair []string
		var line string
		if json.Unmarshal(raw, &pair) != nil && json.Unmarshal(raw, &line) == nil {
			pair = strings.Split(line, " ")
		}
		id := file.Model.Vocab[strings.Join(pair, "")]
		v.Scores[id] = max(v.Scores[id], -float32(rank))
	}
	return v
}

// TestCorpus encodes a third of a megabyte of prose: decoding gives it back, and a token is as long as is usual for English.
func TestCorpus(t *testing.T) {
	text := read(t, testenv.Shared(t, "tales/japanese.txt"))
	dir := testenv.Shared(t, "vocab")
	for _, name := range []string{"llama-spm", "gpt-2", "falcon"} {
		tok := fileTokenizer(t, filepath.Join(dir, "ggml-vocab-"+name+".gguf"))
		ids := tok.Encode(text, false, false)
		expectDecoded(t, tok, text, ids)
		if perToken := float64(len(text)) / float64(len(ids)); perToken < 3 || perToken > 6 {
			t.Errorf("%s: %.2f bytes a token of English prose", name, perToken)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := read(b, testenv.Shared(b, "tales/japanese.txt"))
	dir := testenv.Shared(b, "vocab")
	long := strings.Repeat("a", 1<<20) // one word: no cut, no cache
	for _, name := range []string{"llama-spm", "gpt-2", "falcon"} {
		tok := fileTokenizer(b, filepath.Join(dir, "ggml-vocab-"+name+".gguf"))
		for _, c := range []struct{ name, text string }{{"tales", text}, {"paragraph", text[:2000]}, {"one-word", long}} {
			b.Run(fmt.Sprintf("%s/%s", name, c.name), func(b *testing.B) {
				b.SetBytes(int64(len(c.text)))
				for b.Loop() {
					tok.Encode(c.text, false, false)
				}
			})
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestStrippedSpace: the white space next to certain tokens of a file is removed with them, as in llama.cpp.
func TestStrippedSpace(t *testing.T) {
	v := Vocab{
		Model: "llama", Tokens: []string{"<unk>", "<s>", "</s>", "<mask>", "<|end|>", "▁", "a", "\n"}, Scores: make([]float32, 8),
		Types: []int32{Unknown, Control, Control, Control, Control, Normal, Normal, Normal}, BOS: 1, EOS: 2, EOT: -1, PAD: -1, SEP: -1,
	}
	const space, a, newline = 5, 6, 7
	for _, c := range []struct {
		model, arch, pre, text string
		want                   []int32
	}{
		{"Tales", "llama", "", "a <mask> a<|end|>\na", []int32{a, space, 3, space, a, 4, newline, a}},
		{"Phi-3 mini", "phi3", "", "a <mask> a<|end|>\n a", []int32{a, space, 3, a, 4, a}},
		{"Phi-3 mini", "phi3", "", "<s> a</s> a", []int32{1, space, a, 2, a}},
		{"", "jina-bert-v3", "", "a \n<mask> a", []int32{a, 3, space, a}},
		{"", "bert", "jina-v2-de", " <mask> <mask>", []int32{3, 3}},
	} {
		v := v
		v.Pre = c.pre
		v.StripAsNamed(c.model, c.arch)
		tok, err := New(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(c.text, false, true); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q is %v, want %v", c.model, c.arch, c.text, got, c.want)
		}
	}
}
