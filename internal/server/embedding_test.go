package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// unitTolerance is of a length that float32 numbers have after they were scaled to 1.
const unitTolerance = 1e-5

func vector(t *testing.T, doc any) []float64 {
	t.Helper()
	var v []float64
	for _, x := range doc.([]any) {
		v = append(v, x.(float64))
	}
	return v
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// TestEmbeddings: vectors have length 1, are the same in every form of texts and numbers, and close for similar texts.
func TestEmbeddings(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Pooling = engine.PoolMean })
	doc := l.good("/v1/embeddings", `{"model":"x","input":["The king sat on his throne","The queen sat on her throne","4711 ; { } ++"]}`)
	var all [][]float64
	for i := range 3 {
		v := vector(t, at(t, doc, "data", i, "embedding"))
		if n := dot(v, v); math.Abs(n-1) > unitTolerance {
			t.Errorf("vector %d is %g long", i, math.Sqrt(n))
		}
		all = append(all, v)
	}
	if near, far := dot(all[0], all[1]), dot(all[0], all[2]); near <= far {
		t.Errorf("texts that are alike are %g near, others %g", near, far)
	}

	ids := at(t, l.good("/tokenize", `{"content":"The king sat on his throne","add_special":true}`), "tokens")
	body, _ := json.Marshal(map[string]any{"input": ids, "encoding_format": "base64"})
	raw, err := base64.StdEncoding.DecodeString(at(t, l.good("/v1/embeddings", string(body)), "data", 0, "embedding").(string))
	if err != nil || len(raw) != 4*len(all[0]) {
		t.Fatalf("%d bytes of base64: %v", len(raw), err)
	}
	for i, want := range all[0] {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != float32(want) {
			t.Fatalf("in base64 number %d is %g, not %g", i, got, want)
		}
	}
	if n := len(ids.([]any)); at(t, l.good("/v1/embeddings", string(body)), "usage", "prompt_tokens") != float64(n) {
		t.Errorf("usage does not count %d tokens", n)
	}

	short := vector(t, at(t, l.good("/v1/embeddings", `{"input":"The king sat on his throne","dimensions":16}`), "data", 0, "embedding"))
	if len(short) != 16 || math.Abs(dot(short, short)-1) > unitTolerance {
		t.Errorf("of 16 dimensions: %d numbers, %g long", len(short), math.Sqrt(dot(short, short)))
	}
	for _, bad := range []string{`{}`, `{"input":[]}`, `{"input":""}`, `{"input":[[1e9]]}`, `{"input":5}`, `{"input":"a","dimensions":0}`, `{"input":"a","encoding_format":"hex"}`} {
		if doc, status := l.ask("/v1/embeddings", bad); status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %v", bad, status, doc)
		}
	}
	if doc, status := l.ask("/rerank", `{"query":"a","documents":["b"]}`); status != http.StatusNotImplemented || at(t, doc, "error", "type") != "not_supported_error" {
		t.Errorf("reranking: %d %v", status, doc)
	}
}

// TestEmbeddingsNotFinite: NaN in a damaged model's vectors, which JSON cannot express, gives an error that says so.
func TestEmbeddingsNotFinite(t *testing.T) {
	f, err := gguf.Parse("damaged.gguf", slices.Clone(demo.Model()))
	if err != nil {
		t.Fatal(err)
	}
	norm := f.Tensor("output_norm.weight").Data
	for i := 0; i < len(norm); i += 4 {
		copy(norm[i:], []byte{0, 0, 0xc0, 0x7f})
	}
	l := start(t, func(o *choices) { o.file, o.model.Pooling = f, engine.PoolMean })
	for path, body := range map[string]string{
		"/v1/embeddings": `{"input":"A"}`, "/embedding": `{"content":"A"}`, "/api/embed": `{"input":"A"}`, "/api/embeddings": `{"prompt":"A"}`,
	} {
		doc, status := l.ask(path, body)
		if text := fmt.Sprint(doc["error"]); status != http.StatusInternalServerError || !strings.Contains(text, "not finite") {
			t.Errorf("%s: status %d: %v", path, status, doc)
		}
	}
}

// asked posts body and returns the answer, which is a list.
func (l *live) asked(path, body string) []any {
	l.t.Helper()
	res := l.request(l.t.Context(), "POST", path, body)
	defer res.Body.Close()
	var list []any
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || res.StatusCode != http.StatusOK {
		l.t.Fatalf("%s: status %d: %v", path, res.StatusCode, err)
	}
	return list
}

func TestNativeEmbeddings(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Pooling = engine.PoolNone })
	const text = "The king sat"
	tokens := at(t, l.good("/tokenize", `{"content":"`+text+`","add_special":true}`), "tokens").([]any)
	list := l.asked("/embedding", `{"content":"`+text+`"}`)
	if states := at(t, list, 0, "embedding").([]any); len(states) != len(tokens) {
		t.Errorf("%d vectors of %d tokens", len(states), len(tokens))
	}
	if doc, status := l.ask("/v1/embeddings", `{"input":"a"}`); status != http.StatusBadRequest {
		t.Errorf("without pooling OpenAI's form cannot be answered: %d %v", status, doc)
	}
}

func TestNormalise(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Pooling = engine.PoolLast })
	v := func(norm string) []float64 {
		return vector(t, at(t, l.asked("/embeddings", `{"content":["The king"],"embd_normalize":`+norm+`}`), 0, "embedding", 0))
	}
	plain := v("-1")
	var largest, taxicab float64
	for _, x := range plain {
		largest, taxicab = max(largest, math.Abs(x)), taxicab+math.Abs(x)
	}
	for norm, length := range map[string]float64{"0": largest / 32760, "1": taxicab, "2": math.Sqrt(dot(plain, plain))} {
		for i, x := range v(norm) {
			if math.Abs(x-plain[i]/length) > unitTolerance*max(1, math.Abs(x)) {
				t.Fatalf("norm %s: %g at %d, not %g", norm, x, i, plain[i]/length)
			}
		}
	}
}

// TestInfillRefused: the embedded model was not trained for infilling.
func TestInfillRefused(t *testing.T) {
	l := start(t, nil)
	if doc, status := l.ask("/infill", `{"input_prefix":"a","input_suffix":"b"}`); status != http.StatusNotImplemented {
		t.Errorf("status %d: %v", status, doc)
	}
}

// TestRerank: a reranker's scores are sorted, and each is that of its document alone. Clients of Jina and of Text
// Embeddings Inference find their fields.
func TestRerank(t *testing.T) {
	l := start(t, func(o *choices) {
		o.model.Pooling = engine.PoolRank
		o.file = synthtest.File(t, synth.Spec{Arch: "bert", Type: quant.F32, Layers: 1, Embd: 64, FF: 128, Heads: 2, Seed: 7, Labels: 1})
	})
	const documents = `["a king","the river is deep and cold","stone"]`
	doc := l.good("/v1/rerank", `{"query":"who sat there?","documents":`+documents+`}`)
	results := at(t, doc, "results").([]any)
	if len(results) != 3 || at(t, doc, "usage", "prompt_tokens").(float64) < 10 {
		t.Fatalf("%v", doc)
	}
	scores := map[float64]float64{}
	for i, r := range results {
		scores[at(t, r, "index").(float64)] = at(t, r, "relevance_score").(float64)
		if i > 0 && at(t, r, "relevance_score").(float64) > at(t, results[i-1], "relevance_score").(float64) {
			t.Errorf("the results are not in order: %v", results)
		}
	}
	alone := at(t, l.good("/rerank", `{"query":"who sat there?","documents":[{"text":"stone"}],"return_documents":true}`), "results", 0)
	if at(t, alone, "relevance_score") != scores[2] || at(t, alone, "document", "text") != "stone" {
		t.Errorf("alone the document scores %v, and among others %v", alone, scores[2])
	}
	best := l.asked("/reranking", `{"query":"who sat there?","texts":`+documents+`,"return_text":true,"top_n":1}`)
	if len(best) != 1 || at(t, best, 0, "score") != at(t, results, 0, "relevance_score") || at(t, best, 0, "text").(string) == "" {
		t.Errorf("the best text: %v", best)
	}
	for _, bad := range []string{`{}`, `{"query":"a"}`, `{"query":"a","documents":[]}`, `{"query":1,"documents":["b"]}`, `{"query":"a","documents":["b"],"top_n":0}`, `{"query":"a","documents":[1]}`} {
		if doc, status := l.ask("/rerank", bad); status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %v", bad, status, doc)
		}
	}
	for field, body := range map[string]string{"texts": `{"query":"a","texts":[]}`, "documents": `{"query":"a","documents":[]}`} {
		doc, _ := l.ask("/rerank", body)
		if m := at(t, doc, "error", "message").(string); !strings.Contains(m, "the field "+field+" is no list") {
			t.Errorf("%s: %q does not name the field", body, m)
		}
	}
	if doc, status := l.ask("/v1/embeddings", `{"input":"a"}`); status != http.StatusBadRequest {
		t.Errorf("embeddings of a reranker: %d %v", status, doc)
	}
}

// TestManyTexts: a request's texts share steps of the model, and keep their order.
func TestManyTexts(t *testing.T) {
	l := start(t, func(o *choices) {
		o.model.Pooling = engine.PoolMean
		o.file = synthtest.File(t, synth.Spec{Arch: "bert", Type: quant.F32, Layers: 1, Embd: 64, FF: 128, Heads: 2, Seed: 7})
	})
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = fmt.Sprintf("text %d", i)
	}
	body, _ := json.Marshal(map[string]any{"input": texts})
	before := l.m.Engine.Stats().Steps
	doc := l.good("/v1/embeddings", string(body))
	if steps := l.m.Engine.Stats().Steps - before; steps > 10 {
		t.Errorf("100 texts took %d steps", steps)
	}
	one, _ := json.Marshal(map[string]any{"input": texts[57]})
	if a, b := vector(t, at(t, doc, "data", 57, "embedding")), vector(t, at(t, l.good("/v1/embeddings", string(one)), "data", 0, "embedding")); !slices.Equal(a, b) {
		t.Error("a text among others has another vector")
	}
	long, _ := json.Marshal(map[string]any{"input": strings.Repeat("text ", 3000)})
	if doc, status := l.ask("/v1/embeddings", string(long)); status != http.StatusBadRequest {
		t.Errorf("a text longer than the context: %d %v", status, doc)
	}
}
