package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// spelling generates a given text, and keeps the logits of the last tokens of the prompt and of the text.
type spelling struct {
	text   []int32
	logits []float32
	chosen int
}

func (s *spelling) Sample(logits []float32) int32 {
	s.logits = append(s.logits, logits...)
	if s.chosen++; s.chosen > len(s.text) {
		return 0
	}
	return s.text[s.chosen-1]
}

func (s *spelling) Accept(int32)                {}
func (s *spelling) Constrain(sample.Constraint) {}
func (s *spelling) Done() bool                  { return false }
func (s *spelling) Err() error                  { return nil }

// TestPictures: a prompt with a picture has llama.cpp's tokens and, after the picture, its logits.
func TestPictures(t *testing.T) {
	for _, c := range testenv.Few(t, 4, visiontest.Cases()) {
		if !tower.Has(c.Projector()) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			peer, err := c.Peer()
			if err != nil {
				t.Fatal(err)
			}
			f := c.Text(t)
			e := openPictures(t, f, 0)
			short := e
			if e.Config().Back > 0 { // steps of a few rows, so that blocks of positions begin in earlier steps
				short = openPictures(t, f, 6)
			}
			tower := openTower(t, c)
			for _, p := range c.Pictures {
				figures := peer[p.Name]
				want := figures.Logits
				switch {
				case figures.PublishedLogits != nil:
					want = *figures.PublishedLogits
				case figures.PublishedRows != nil:
					continue // llama.cpp gives only rows
				}
				parts, err := tower.Show(t.Context(), p.Image())
				if err != nil {
					t.Fatal(err)
				}
				var prompt []int32
				var placed []vision.Placed
				for _, k := range figures.Chunks {
					if k.Rows == 0 {
						prompt = append(prompt, k.Tokens...)
						continue
					}
					for parts[0].Rows == nil {
						parts = parts[1:]
					}
					placed = append(placed, vision.Placed{At: len(prompt), Rows: parts[0].Rows})
					prompt, parts = append(prompt, make([]int32, k.Rows)...), parts[1:]
				}
				// These published prompts have more around pictures than llama.cpp's.
				if !slices.Contains([]string{"gemma3", "kimik25", "llama4"}, c.Projector()) {
					marked := picture.Marked{Text: visiontest.Prompt, Mark: visiontest.Marker, Pictures: []*picture.Image{p.Image()}}
					ours, err := tower.Tokenize(&marked, nil, func(text string, first bool) ([]int32, error) {
						return e.Tokenizer().Encode(text, first, true), nil
					})
					if err != nil {
						t.Fatal(err)
					}
					at, err := tower.Compute(t.Context(), ours, nil)
					same := func(a, b vision.Placed) bool { return a.At == b.At && a.Sum == b.Sum }
					if err != nil || !slices.Equal(ours.IDs, prompt) || !slices.EqualFunc(at, placed, same) {
						t.Errorf("picture %s: tokens %v, want %v; %v", p.Name, ours.IDs, prompt, err)
					}
				}
				after := figures.After()
				most := 1e-4
				switch {
				case strings.HasSuffix(c.Name, "bf16"), strings.HasSuffix(c.Name, "q8_0"):
					most = 1e-2 // the CPU rounds the operands of products with a tower's matrices of these types
				case strings.HasSuffix(c.Name, "f16"):
					most = 1e-3 // llama.cpp rounds them to F16, the CPU to its instructions' type
				}
				for _, e := range slices.Compact([]*engine.Engine{e, short}) {
					s := &spelling{text: after[1:]}
					if _, err := e.Generate(t.Context(), engine.Request{
						Prompt: prompt[:len(prompt)-len(after)+1], Pictures: placed, Max: len(after), Sampler: s, IgnoreEOG: true,
					}, nil); err != nil {
						t.Fatal(err)
					}
					if d := visiontest.Summarize(s.logits).Distance(want); d > most {
						t.Errorf("picture %s: distance %.2g", p.Name, d)
					}
				}
			}
		})
	}
}

// openPictures opens a model with an exact cache, and with steps of this many tokens unless it is 0.
func openPictures(t *testing.T, f *gguf.File, step int) *engine.Engine {
	t.Helper()
	return openFile(t, f, engine.Options{
		Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 2048, UBatch: step}, Cache: engine.Cache{CacheTypes: compute.CacheTypes{Key: compute.KVF32, Value: compute.KVF32}},
	})
}

func openTower(t *testing.T, c visiontest.Case) *vision.Tower {
	t.Helper()
	f := c.Tower(t)
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	v, err := vision.Open(t.Context(), f, dev, vision.Options{Limits: tower.Limits{Least: c.Least}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}
