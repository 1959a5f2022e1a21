package engine

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// TestPictureAmongDrafts: a picture that needs most of a step need not wait for the end of another text, although
// drafts of that text leave no room for it.
func TestPictureAmongDrafts(t *testing.T) {
	const rows, outputs, drafts, context = 24, 2, 8, 512
	e, m := openFake(t, 2*context/compute.PagePositions+2, limits{rows: rows, outputs: outputs, drafts: drafts, context: context})
	e.ubatch, e.outputs, e.config.Given = rows, outputs, 1
	e.guesser = func(*Request) guesser { return &fakeGuesser{sure: true} }
	var shown atomic.Bool
	m.cost = func(p *compute.Params) time.Duration {
		if slices.ContainsFunc(p.Given, func(v []float32) bool { return v != nil }) {
			shown.Store(true)
		}
		took := time.Duration(len(p.Tokens)) * time.Microsecond
		if p.Decode > 0 {
			took += time.Millisecond
		}
		return took // prompts are cheap, so that a step may read many of their tokens
	}
	long, err := e.Submit(t.Context(), Request{Prompt: make([]int32, 4), Max: 300, Sampler: greedySampler{}, IgnoreEOG: true})
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	read := func(n int) {
		t.Helper()
		for range n {
			if _, ok := long.Next(); !ok {
				t.Fatal(long.Err())
			}
		}
	}
	read(20)
	picture := vision.Rows{Vectors: slices.Repeat([][]float32{{1}}, pictureStep(rows, outputs)), Mutual: true}
	st, err := e.Submit(t.Context(), Request{
		Prompt: make([]int32, len(picture.Vectors)+2), Pictures: []vision.Placed{{At: 1, Rows: &picture}}, Max: 1, Sampler: greedySampler{}, IgnoreEOG: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	read(100)
	if !shown.Load() {
		t.Errorf("100 tokens later the picture of %d rows has had no step", len(picture.Vectors))
	}
}
