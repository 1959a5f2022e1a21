package measure

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
)

// TestKernels: each type that has several kernels has a choice among all of them, unless it is computed as another type, and no length of
// rows is measured twice for one kernel.
func TestKernels(t *testing.T) {
	m, taken := Machine{Cores: 1, RAM: []RAM{{Threads: 1, Stream: 1e9}}}, 0
	if err := m.measureKernels(t.Context(), func() { taken++ }); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if taken != kernelSteps() {
		t.Errorf("%d steps, not %d", taken, kernelSteps())
	}
	for _, scattered := range []bool{false, true} {
		for _, typ := range cpu.TunableTypes(scattered) {
			var of []Kernel
			for _, k := range m.Kernels {
				if k.Type == typ.String() && k.Scattered == scattered {
					of = append(of, k)
				}
			}
			if len(of) == 0 && !typ.Float() || len(of) > 1 && scattered {
				t.Errorf("%d kernels of %s, scattered: %t", len(of), typ, scattered)
			}
			for i, k := range of {
				if i > 0 && cpu.SameKernel(typ, k.Cols, of[i-1].Cols) {
					t.Errorf("%s: rows of %d and of %d elements go by one kernel", typ, of[i-1].Cols, k.Cols)
				}
				if len(k.Speeds) < 2 || !slices.ContainsFunc(k.Speeds, func(s KernelSpeed) bool { return s.Kernel == k.Chosen }) {
					t.Errorf("%+v", k)
				}
			}
		}
	}
}

// TestKernelWhy: a kernel that is not the usual one is told with its gain; a choice without its speeds is refused.
func TestKernelWhy(t *testing.T) {
	k := Kernel{Type: "Q4_0", Cols: 4096, Chosen: "far", Usual: "near", Speeds: []KernelSpeed{{"near", 15.4e9}, {"far", 23.1e9}}}
	if got, want := k.Why(), "1.50 times as fast as near, the usual one"; got != want || k.check() != nil {
		t.Errorf("%q, want %q; %v", got, want, k.check())
	}
	k.Chosen = "near"
	if got, want := k.Why(), "usual; no other is clearly faster"; got != want {
		t.Errorf("%q, want %q", got, want)
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
