package eval

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// llamaTolerance bounds the difference of log-likelihoods from llama.cpp's.
const llamaTolerance = 1e-3

// openExact opens the embedded model as llama.cpp computed it: dense, with SiLU; weights, keys and values in float32,
// which no kernel rounds.
func openExact(t *testing.T) *engine.Engine {
	t.Helper()
	half, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	output, err := convert.ParseOutput("f32")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f32.gguf")
	if err := convert.Quantize(t.Context(), half, path, convert.Quantization{Output: output}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	e, err := engine.Open(t.Context(), f, engine.Options{
		Devices: planner.CPU(planner.Processor{}), Limits: engine.Limits{Context: 1024, Sequences: 64}, Neurons: engine.Neurons{Activation: "silu", Sparse: model.Off}, Cache: engine.Cache{CacheTypes: compute.CacheTypes{Key: compute.KVF32, Value: compute.KVF32}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Log-likelihoods are llama.cpp's on the same weights and data, in all of its forms; testdata/llama.json says how they
// were made.
func TestLikelihoodsOfLlama(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "llama.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Scores map[task.Kind]map[string][][2]float64
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	e := openExact(t)
	compared := 0
	for kind, file := range map[task.Kind]string{task.HellaSwag: "hellaswag.txt", task.Choice: "choices.bin", task.Winogrande: "winogrande.csv"} {
		d, err := task.Read(kind, filepath.Join("testdata", file), task.ByForm)
		if err != nil {
			t.Fatal(err)
		}
		q := Questions{Data: d, Items: []int{0, 1, 2}, Parallel: 3}
		if kind == task.Winogrande {
			q.Items = append(q.Items, 3)
		}
		q.Each = func(i int, l []task.Likelihood) error {
			for choice, w := range want.Scores[kind][d.Items[i].ID] {
				got := l[choice].Sum
				if kind == task.Winogrande {
					got /= float64(l[choice].Tokens)
				} else if l[choice].Tokens != int(w[1]) {
					t.Errorf("%s %d, choice %d: %d tokens, llama.cpp %g", kind, i, choice, l[choice].Tokens, w[1])
				}
				if compared++; math.Abs(got-w[0]) > llamaTolerance {
					t.Errorf("%s %d, choice %d: %.6f, llama.cpp %.6f", kind, i, choice, got, w[0])
				}
			}
			return nil
		}
		if err := q.Run(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if compared != 30 {
		t.Errorf("%d choices were compared, not 30", compared)
	}
}

// TestLikelihoodsOfTheHarness: as in the harness, a choice's score is the sum over the continuation's tokens, whatever
// prefixes choices share.
func TestLikelihoodsOfTheHarness(t *testing.T) {
	e := openExact(t)
	tok := e.Tokenizer()
	d := &task.Data{Kind: task.ARC, Scoring: task.Harness, Items: []task.Item{{ID: "a", First: 3, Right: []bool{true, false, false}}}}
	texts := []string{" there was a king", " there was a queen", " there was a king"}
	const before = "Once upon a time"
	for _, c := range texts {
		d.Items[0].Choices = append(d.Items[0].Choices, task.Text{Context: before, Continuation: c, Length: len(c)})
	}
	got, err := Likelihoods(t.Context(), e, d, &d.Items[0])
	if err != nil {
		t.Fatal(err)
	}
	from := len(tok.Encode(before, true, false))
	for i, c := range texts {
		tokens := tok.Encode(before+c, true, false)
		want := 0.0
		for _, v := range surprises(t, e, tokens, tokens[0], from-1) {
			want -= v
		}
		if got[i].Tokens != len(tokens)-from || math.Abs(got[i].Sum-want) > llamaTolerance {
			t.Errorf("%q: %+v, not %g of %d tokens", c, got[i], want, len(tokens)-from)
		}
	}
	if got[0] != got[2] {
		t.Errorf("the same choice twice: %+v and %+v", got[0], got[2])
	}
}

// What choices share is evaluated once.
func TestSharedPrefix(t *testing.T) {
	all := []span{{[]int32{1, 2, 3, 4, 5}, 3, 5}, {[]int32{1, 2, 3, 9}, 3, 4}}
	if n := sharedBy(all); n != 2 { // the logits of token 2 predict the first that is scored
		t.Errorf("%d tokens are shared, not 2", n)
	}
	e := openExact(t)
	d, err := task.Parse(task.HellaSwag, "x", []byte(tale+"\n0\nThe one.\nAnd so on.\nBut then.\nWe know.\n"), task.ByForm)
	if err != nil {
		t.Fatal(err)
	}
	before := e.Stats().Read
	if _, err := Likelihoods(t.Context(), e, d, &d.Items[0]); err != nil {
		t.Fatal(err)
	}
	read := int(e.Stats().Read - before)
	if whole := len(e.Tokenizer().Encode(tale, true, false)); read > whole+40 {
		t.Errorf("%d tokens were read for a context of %d and four short endings", read, whole)
	}
}

// TestQuestionsEnd: an error ends a run, and so does its context. A choice without tokens, or a too long one, is
// refused by name.
func TestQuestionsEnd(t *testing.T) {
	e := openExact(t)
	d, err := task.Read(task.HellaSwag, filepath.Join("testdata", "hellaswag.txt"), task.ByForm)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	q := Questions{Data: d, Items: []int{0, 1, 2}, Parallel: 2, Each: func(int, []task.Likelihood) error { return full }}
	if err := q.Run(t.Context(), e); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.Each = func(int, []task.Likelihood) error { t.Error("was told"); return nil }
	if err := q.Run(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	d.Items[1].Choices = slices.Repeat([]task.Text{{Context: "Once upon a time", Continuation: ""}}, 2)
	d.Scoring = task.Harness
	q.Items = []int{1}
	if err := q.Run(t.Context(), e); err == nil || err.Error() != "question 2: choice 1 has no tokens of its own\nchoice 2 has no tokens of its own" &&
		err.Error() != "question 2: choice 1 has no tokens of its own" {
		t.Errorf("%v", err)
	}
}
