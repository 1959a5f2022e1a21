package engine_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// seeing returns an engine of a case's text model, and a prompt with two views of a picture.
func seeing(t *testing.T, name string, o engine.Options) (*engine.Engine, []int32, []vision.Placed) {
	t.Helper()
	all := visiontest.Cases()
	i := slices.IndexFunc(all, func(c visiontest.Case) bool { return c.Name == name })
	path := filepath.Join(t.TempDir(), visiontest.TextFile)
	if err := all[i].WriteText(path); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	o.Devices, o.Context = planner.CPU(planner.Processor{Threads: 2}), 2048
	o.CacheTypes = compute.CacheTypes{Key: compute.KVF32, Value: compute.KVF32}
	e := openFile(t, f, o)
	tower := openTower(t, all[i])
	prompt, placed := []int32{1, 342, 381, 356}, []vision.Placed(nil)
	for _, p := range all[i].Pictures[:1] {
		parts, err := tower.Show(t.Context(), p.Image())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, part := range parts {
				if part.Rows != nil {
					placed = append(placed, vision.Placed{At: len(prompt), Rows: part.Rows})
					prompt = append(prompt, make([]int32, len(part.Rows.Vectors))...)
				}
			}
			prompt = append(prompt, 331, 389, 359)
		}
	}
	return e, prompt, placed
}

// spell returns the logits of the last tokens of a prompt and of the text.
func spell(t *testing.T, e *engine.Engine, r engine.Request, text []int32) ([]float32, engine.Result) {
	t.Helper()
	s := &spelling{text: text}
	r.Max, r.Sampler, r.IgnoreEOG = len(text)+1, s, true
	res, err := e.Generate(context.WithoutCancel(t.Context()), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.logits, res
}

var spelled = []int32{342, 359, 343}

// TestPicturesInSteps: the logits after pictures do not depend on how the prompt is cut into steps, on which part of it
// is cached, or on other requests.
func TestPicturesInSteps(t *testing.T) {
	for _, name := range []string{"qwen3vl_merger", "gemma3"} { // positions along axes; rows that see each other
		t.Run(name, func(t *testing.T) {
			e, prompt, placed := seeing(t, name, engine.Options{})
			r := engine.Request{Prompt: prompt, Pictures: placed}
			want, first := spell(t, e, r, spelled)
			if first.Reused != 0 || first.PromptTokens != len(prompt) {
				t.Errorf("at first %d tokens were reused and %d read, of %d", first.Reused, first.PromptTokens, len(prompt))
			}
			if got, res := spell(t, e, r, spelled); !slices.Equal(got, want) || res.Reused != len(prompt)-1 {
				t.Errorf("again %d of %d tokens were reused; equal logits: %t", res.Reused, len(prompt), slices.Equal(got, want))
			}
			other := slices.Clone(placed)
			rows := *other[1].Rows
			rows.Sum[0]++
			rows.Vectors = slices.Clone(rows.Vectors)
			rows.Vectors[0] = slices.Clone(rows.Vectors[0])
			rows.Vectors[0][0]++
			other[1].Rows = &rows
			got, res := spell(t, e, engine.Request{Prompt: prompt, Pictures: other}, spelled)
			if slices.Equal(got, want) || res.Reused != other[1].At {
				t.Errorf("with another second picture %d tokens were reused, not %d; equal logits: %t", res.Reused, other[1].At, slices.Equal(got, want))
			}

			cut, prompt, placed := seeing(t, name, engine.Options{Limits: engine.Limits{UBatch: 24, Batch: 24, Sequences: 3}})
			r = engine.Request{Prompt: prompt, Pictures: placed}
			var all sync.WaitGroup
			logits := make([][]float32, 3)
			for i := range logits {
				all.Go(func() {
					r := r
					if i > 0 {
						r.Reuse = engine.ReuseNone
					}
					logits[i], _ = spell(t, cut, r, spelled)
				})
			}
			all.Wait()
			for i, got := range logits {
				if !slices.Equal(got, want) {
					t.Errorf("request %d of three in steps of 24 has other logits", i)
				}
			}
		})
	}
}

// TestPictureFits: impossible pictures are errors.
func TestPictureFits(t *testing.T) {
	e, prompt, placed := seeing(t, "gemma3", engine.Options{Limits: engine.Limits{UBatch: 16, Batch: 16, Sequences: 2}})
	for _, c := range []struct {
		says   string
		change func(p *vision.Placed)
	}{
		{"-ub 20", func(*vision.Placed) {}},
		{"rows at token", func(p *vision.Placed) { p.At = len(prompt) }},
		{"numbers", func(p *vision.Placed) {
			rows := *p.Rows
			rows.Vectors = slices.Clone(rows.Vectors[:4])
			rows.Vectors[3] = rows.Vectors[3][1:]
			p.Rows = &rows
		}},
	} {
		one := slices.Clone(placed[:1])
		c.change(&one[0])
		_, err := e.Submit(t.Context(), engine.Request{Prompt: prompt, Pictures: one, Sampler: &spelling{}, Max: 1})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v does not say %q", err, c.says)
		}
	}
}
