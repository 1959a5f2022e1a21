package measure

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
)

// TestKernels: each shape with several kernels has a choice among all of them, with its reason, and each is measured
// once.
func TestKernels(t *testing.T) {
	m, taken := Machine{Cores: 1, RAM: []RAM{{Threads: 1, Stream: 1e9}}}, 0
	if err := m.takeKernels(t.Context(), 32<<20, func() { taken++ }); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if shapes := cpu.Shapes(); taken != len(shapes) || kernelSteps() != len(shapes) {
		t.Errorf("%d steps of %d, of %d shapes", taken, kernelSteps(), len(shapes))
	}
	for _, s := range cpu.Shapes() {
		of := slices.DeleteFunc(slices.Clone(m.Kernels), func(k Kernel) bool {
			return k.Type != s.Type.String() || k.Cols != s.Cols || k.Mapped != s.Mapped() || k.Scattered != s.Scattered()
		})
		if len(of) != 1 {
			t.Errorf("%v has %d choices", s, len(of))
			continue
		}
		if k := of[0]; k.Why == "" || len(k.Speeds) < 2 || k.Speed(k.Chosen) == 0 {
			t.Errorf("%+v", k)
		}
	}
}

// TestKernelCheck refuses a choice without its speeds.
func TestKernelCheck(t *testing.T) {
	k := Kernel{Type: "Q4_0", Cols: 4096, Chosen: "far", Usual: "near", Speeds: []KernelSpeed{{"near", 15.4e9}, {"far", 23.1e9}}}
	if err := k.check(); err != nil {
		t.Error(err)
	}
	for _, k := range []Kernel{
		{Type: "Q4_0", Chosen: "far", Usual: "near", Speeds: []KernelSpeed{{"near", 15.4e9}}},
		{Type: "Q4_0", Chosen: "near", Usual: "near", Speeds: []KernelSpeed{{"near", 15.4}}},
	} {
		if k.check() == nil {
			t.Errorf("%+v passes", k)
		}
	}
}
