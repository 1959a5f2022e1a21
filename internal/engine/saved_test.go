package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

const savedPrompt = "Once upon a time there was a king who had three daughters, and the youngest of them was so beautiful that the sun itself, which has seen so much, wondered whenever it shone in her face."

func onProcessor() engine.Options {
	return engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 320}}
}

// told returns a text that an engine generated: the prompt and n tokens.
func told(t *testing.T, e *engine.Engine, n int) []int32 {
	t.Helper()
	prompt := e.Tokenizer().Encode(savedPrompt, true, true)
	out, _ := greedy(t, e, prompt, n)
	return slices.Concat(prompt, out)
}

// saved is the number of tokens that an engine saves of a text: at least all but the last one.
func saved(t *testing.T, e *engine.Engine, text []int32) []byte {
	t.Helper()
	var file bytes.Buffer
	s, err := e.Save(t.Context(), &file, text)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tokens) < len(text)-1 || s.Bytes != int64(file.Len()) {
		t.Fatalf("%d of %d tokens in %d of %d bytes", len(s.Tokens), len(text), s.Bytes, file.Len())
	}
	return file.Bytes()
}

func restore(t *testing.T, e *engine.Engine, file []byte) engine.Saved {
	t.Helper()
	s, err := e.Restore(t.Context(), bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSaveAndRestore: keys and values saved by another process serve the next request as if they were computed here.
func TestSaveAndRestore(t *testing.T) {
	first := open(t, onProcessor())
	text := told(t, first, 50)
	want, _ := greedy(t, first, text, 20)
	text = append(text, want[0])
	path := filepath.Join(t.TempDir(), "text.kv")
	s, err := first.SaveFile(t.Context(), path, text, 0)
	if err != nil || !slices.Equal(s.Tokens, text[:len(text)-1]) && !slices.Equal(s.Tokens, text) {
		t.Fatalf("%d of %d tokens were saved: %v", len(s.Tokens), len(text), err)
	}
	second := open(t, onProcessor())
	r, err := second.RestoreFile(t.Context(), path)
	if err != nil || !slices.Equal(r.Tokens, s.Tokens) || r.Bytes != s.Bytes {
		t.Fatalf("%d of %d tokens were restored: %v", len(r.Tokens), len(s.Tokens), err)
	}
	got, res := greedy(t, second, text, 19)
	if res.PromptTokens != 1 || res.Reused != len(text)-1 {
		t.Errorf("%d prompt tokens were evaluated and %d reused of %d", res.PromptTokens, res.Reused, len(text))
	}
	if !slices.Equal(got, want[1:]) {
		t.Errorf("the text goes on with %v, without restoring with %v", got, want[1:])
	}
	if err := second.Erase(text); err != nil {
		t.Fatal(err)
	}
	if _, res := greedy(t, second, text, 1); res.Reused != 0 {
		t.Errorf("%d tokens of a erased text were reused", res.Reused)
	}
}

// TestRestoredBytes: restored keys and values, saved again, give the same file.
func TestRestoredBytes(t *testing.T) {
	first, second := open(t, onProcessor()), open(t, onProcessor())
	text := told(t, first, 10)
	file := saved(t, first, text)
	restore(t, second, file)
	if again := saved(t, second, text); !bytes.Equal(again, file) {
		t.Error("they differ")
	}
}

// failing is a file with a read error after some bytes.
type failing struct {
	*bytes.Reader
	err    error
	before func()
}

func (f failing) Read(b []byte) (int, error) {
	if f.Len() < 1<<10 {
		f.before()
		return 0, f.err
	}
	return f.Reader.Read(b[:min(len(b), 512)])
}

// TestRestoreRefuses: a damaged file, or one of another model, is refused with an error in one sentence, and the cache
// takes nothing of it.
func TestRestoreRefuses(t *testing.T) {
	e := open(t, onProcessor())
	text := told(t, e, 10)
	file := saved(t, e, text)
	if err := e.Erase(text); err != nil {
		t.Fatal(err)
	}
	data := slices.Clone(demo.Model())
	other, err := gguf.Parse("other.gguf", data)
	if err != nil {
		t.Fatal(err)
	}
	other.Tensor("blk.0.attn_k.weight").Data[3] ^= 1 // as if it had been trained further
	tuned, err := engine.Open(t.Context(), other, onProcessor())
	if err != nil {
		t.Fatal(err)
	}
	defer tuned.Close()
	flipped := slices.Clone(file)
	flipped[len(flipped)-100] ^= 1
	cancelled, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		e    *engine.Engine
		read func() error
		want string
	}{
		"another model": {tuned, nil, "another model"},
		"damaged":       {e, func() error { return restoring(t.Context(), e, flipped) }, "checksum"},
		"cut":           {e, func() error { return restoring(t.Context(), e, file[:len(file)-1]) }, "cut short"},
		"another file":  {e, func() error { return restoring(t.Context(), e, demo.Model()) }, "no file of keys and values"},
		"empty":         {e, func() error { return restoring(t.Context(), e, nil) }, "no file of keys and values"},
		"unreadable": {e, func() error {
			_, err := e.Restore(t.Context(), failing{bytes.NewReader(file), errors.New("a worn disk"), func() {}}, int64(len(file)))
			return err
		}, "a worn disk"},
		"cancelled": {e, func() error {
			_, err := e.Restore(cancelled, failing{bytes.NewReader(file), errors.New("too late"), cancel}, int64(len(file)))
			return err
		}, ""},
	} {
		if c.read == nil {
			c.read = func() error { return restoring(t.Context(), c.e, file) }
		}
		err := c.read()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.e.Save(t.Context(), new(bytes.Buffer), text); !errors.Is(err, engine.ErrNotCached) {
			t.Errorf("%s: the cache has something of the text: %v", name, err)
		}
	}
	cancel()
	if err := restoring(cancelled, e, file); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, err := e.RestoreFile(t.Context(), filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	restore(t, e, file) // the intact file
}

func restoring(ctx context.Context, e *engine.Engine, file []byte) error {
	_, err := e.Restore(ctx, bytes.NewReader(file), int64(len(file)))
	return err
}

// TestRestoreShort: a context shorter than the text gets the text's beginning.
func TestRestoreShort(t *testing.T) {
	e := open(t, onProcessor())
	text := told(t, e, 40)
	o := onProcessor()
	o.Context = 70
	short := open(t, o)
	if s := restore(t, short, saved(t, e, text)); !slices.Equal(s.Tokens, text[:70]) {
		t.Errorf("%d tokens were restored, want 70", len(s.Tokens))
	}
}

// TestRestoreElsewhere: keys and values saved by one split of the model continue on another with the same text.
// Requests that want the same bytes do not reuse them.
func TestRestoreElsewhere(t *testing.T) {
	testenv.Thorough(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	o := onProcessor()
	processor := open(t, o)
	const tokens = 8
	text := told(t, processor, tokens)
	want, _ := greedy(t, processor, text, tokens)
	layers := processor.Config().Layers
	places := share(layers, 320)
	places[layers-1].Attention = false
	split := openGPU(t, f, o, two(cut(places, 1), hybrid.Streaming{}))
	defer split.Close()
	if got := told(t, split.Engine, tokens); !slices.Equal(got, text) {
		t.Fatalf("the split's text is another before anything was restored")
	}
	files := map[*engine.Engine][]byte{processor: saved(t, split.Engine, text), split.Engine: saved(t, processor, text)}
	for e, file := range files {
		again := func() {
			if err := e.Erase(slices.Concat(text, want)); err != nil {
				t.Fatal(err)
			}
			restore(t, e, file)
		}
		again()
		s, err := sample.New(sample.DefaultOptions(), e.Config().Vocab)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := e.Generate(t.Context(), engine.Request{Prompt: text, Max: 1, Sampler: s}, nil); err != nil || res.Reused != 0 {
			t.Errorf("%s: %d tokens were reused where the bytes have to be the same: %v", e.Device(), res.Reused, err)
		}
		again()
		got, res := greedy(t, e, text, tokens)
		if res.PromptTokens != 1 || !slices.Equal(got, want) {
			t.Errorf("%s: after %d evaluated tokens the text goes on with %v, want %v", e.Device(), res.PromptTokens, got, want)
		}
	}
}

// TestSaveBesideRequests: requests get their texts while others save and restore, although pages are scarce.
func TestSaveBesideRequests(t *testing.T) {
	o := onProcessor()
	o.Sequences = 3
	e := open(t, o)
	text := told(t, e, 20)
	file := saved(t, e, text)
	prompts := [][]int32{e.Tokenizer().Encode("The wolf said", true, true), e.Tokenizer().Encode("Far away behind the mountains", true, true), text}
	var want [][]int32
	for _, p := range prompts {
		out, _ := greedy(t, e, p, 60)
		want = append(want, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running, beside sync.WaitGroup
	beside.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, err := e.Save(ctx, new(bytes.Buffer), text)
			if i%3 == 0 {
				err = e.Erase(text)
			}
			if err != nil && !errors.Is(err, engine.ErrNotCached) && ctx.Err() == nil {
				t.Error(err)
			}
			if err := restoring(ctx, e, file); err != nil && !errors.Is(err, engine.ErrNoRoom) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for i, p := range prompts {
		running.Go(func() {
			for range 3 {
				if got, _ := greedy(t, e, p, 60); !slices.Equal(got, want[i]) {
					t.Errorf("prompt %d: %v, alone %v", i, got, want[i])
				}
			}
		})
	}
	running.Wait()
	cancel()
	beside.Wait()
}
