package engine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestLostGPUFromDisk: a GPU that holds some of the experts fails while the others stay on disk. The processor then
// continues with all experts on disk. All files are closed in the end.
func TestLostGPUFromDisk(t *testing.T) {
	testenv.Thorough(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	s := synth.Spec{Arch: "qwen3moe", Layers: 3, Embd: 256, FF: 256, Heads: 4, KVHeads: 2, Type: quant.Q8_0, Experts: 48, Used: 2, Activation: "silu", Seed: 5}
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	var on placement.Layout
	for range s.Layers + 1 {
		on.Places = append(on.Places, compute.Place{Split: compute.Split{Bound: 4}, Attention: true})
	}
	files, goroutines := openFiles(), runtime.NumGoroutine()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	left := 1 << 30
	m := &mortals{plans: []placement.Layout{on, {}}, make: func(d hybrid.GPU) hybrid.GPU { return mortal{d, &left, vulkan.ErrLost, false} }}
	o := Options{Devices: m, Limits: Limits{Context: 64, UBatch: 16}}
	least, err := o.Least(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	o.RAM = &least.Need
	e, err := Open(t.Context(), f, o)
	if errors.Is(err, vulkan.ErrNone) {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{5, 40, 300, 17, 99, 261, 6, 280}
	before := e.Memory().OnDisk
	lost, alone := e.NewSequence(), e.NewSequence()
	got := likely(t, e, lost, ids[:4])
	left = 1
	got = append(got, likely(t, e, lost, ids[4:])...)
	if len(m.causes) != 1 || before == 0 || e.Memory().OnDisk <= before {
		t.Errorf("%v; %d bytes stay on disk, with the GPU %d", m.causes, e.Memory().OnDisk, before)
	}
	if want := likely(t, e, alone, ids); !slices.Equal(got[4:], want[4:]) {
		t.Errorf("behind the loss %v, and where nothing was lost %v", got[4:], want[4:])
	}
	e.Release(lost)
	e.Release(alone)
	if err := errors.Join(e.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	if now := openFiles(); now > files {
		t.Errorf("%d files are open, and were %d", now, files)
	}
}

// openFiles returns the number of the process's open files; 0 where the system does not list them.
func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}
