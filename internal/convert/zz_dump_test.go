package convert_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func TestZZDump(t *testing.T) {
	out := os.Getenv("DUMP")
	if out == "" {
		t.Skip()
	}
	for _, n := range []string{"bert", "bert-reranker", "distilbert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "modern-bert", "modern-bert-reranker", "nomic-bert", "qwen3-embedding", "roberta", "xlm-roberta-reranker"} {
		var r reference
		data, _ := os.ReadFile(filepath.Join("testdata", "reference", n+".json"))
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		if err := convert.HuggingFace(t.Context(), r.folder(t), filepath.Join(out, strings.ToLower(n)+".gguf"), convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
			t.Fatal(err)
		}
	}
}
