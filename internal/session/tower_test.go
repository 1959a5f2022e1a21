package session

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// TestNeedOfTower: a tower counts where it will be: on a GPU with room for it, else in RAM.
func TestNeedOfTower(t *testing.T) {
	dir := t.TempDir()
	if err := visiontest.Cases()[0].Write(dir); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(filepath.Join(dir, visiontest.TextFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	of := func(devices string, change func(*Options)) (onGPU, inRAM int64, o Options) {
		o.Planner.Devices = devices
		if change != nil {
			change(&o)
		}
		onGPU, inRAM, err := o.needOfTower(f)
		if err != nil {
			t.Fatal(err)
		}
		return onGPU, inRAM, o
	}
	_, whole, _ := of(vulkan.None, nil)
	if whole <= 0 {
		t.Fatalf("the tower takes %d bytes", whole)
	}
	if onGPU, inRAM, _ := of(vulkan.None, func(o *Options) { o.Tower.Off = true }); onGPU != 0 || inRAM != 0 {
		t.Errorf("a tower that is not loaded takes %d and %d bytes", onGPU, inRAM)
	}
	if _, err := vulkan.Chosen(vulkan.Software); err != nil {
		testenv.Missing(t, "vulkan", err.Error())
	}
	for _, c := range []struct {
		budget int64
		alone  bool // the processor is to compute pictures
		onGPU  bool
	}{{4 * whole, false, true}, {whole, false, false}, {4 * whole, true, false}} {
		onGPU, inRAM, o := of(vulkan.Software, func(o *Options) { o.Planner.VRAM, o.Tower.OnProcessor = []int64{c.budget}, c.alone })
		want, left := [2]int64{0, whole}, c.budget
		if c.onGPU {
			want, left = [2]int64{whole, 0}, c.budget-whole
		}
		if [2]int64{onGPU, inRAM} != want || o.Planner.VRAM[0] != left {
			t.Errorf("%+v: %d bytes on the GPU, whose budget is %d then, and %d in RAM", c, onGPU, o.Planner.VRAM[0], inRAM)
		}
	}
}

// TestWithBeside: what a model is expected to take includes what was opened before it, of what was free before that.
func TestWithBeside(t *testing.T) {
	s := Session{beside: Need{RAM: 300, GPU: 20}}
	m := s.withBeside(engine.Memory{Weights: 1000, Need: 1000, Available: 5000, OnGPUs: 1})
	if m.Need != 1300 || m.Beside != 300 || m.Available != 5300 || m.OnGPUs != 21 {
		t.Errorf("%+v", m)
	}
	if m := s.withBeside(engine.Memory{}); m.Available != 0 {
		t.Errorf("%d bytes are free, and nobody knows that", m.Available)
	}
}
