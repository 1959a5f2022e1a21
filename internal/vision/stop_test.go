package vision_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// TestStopped: a request that ends in the middle of a picture gets no rows, and the next one gets all; both get the
// tower's progress.
func TestStopped(t *testing.T) {
	all := visiontest.Cases()
	c := all[slices.IndexFunc(all, func(c visiontest.Case) bool { return c.Name == "gemma3" })]
	path := filepath.Join(t.TempDir(), visiontest.TowerFile)
	if err := c.WriteTower(path); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	tower, err := vision.Open(t.Context(), f, dev, vision.Options{AtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tower.Close()
	m := &picture.Marked{Text: "#", Mark: "#", Pictures: []*picture.Image{c.Pictures[0].Image()}}
	prompt, err := tower.Tokenize(m, nil, bytesOf)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var told []int
	placed, err := tower.Compute(ctx, prompt, func(done, total int) {
		if told = append(told, done, total); done == 1 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || placed != nil {
		t.Errorf("after the end of the request: %d pictures, %v", len(placed), err)
	}
	told = nil
	placed, err = tower.Compute(t.Context(), prompt, func(done, total int) { told = append(told, done, total) })
	if err != nil || !slices.Equal(told, []int{0, 3, 1, 3, 2, 3, 3, 3}) {
		t.Errorf("told %v, %v", told, err)
	}
	peer, err := c.Peer()
	if err != nil {
		t.Fatal(err)
	}
	var rows []float32
	for _, v := range placed[0].Vectors {
		rows = append(rows, v...)
	}
	if d := visiontest.Summarize(rows).Distance(peer[c.Pictures[0].Name].Rows); d > toleranceOf(c.Name) {
		t.Errorf("distance %.2g", d)
	}
}
