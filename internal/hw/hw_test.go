package hw

import (
	"runtime"
	"testing"
)

func TestDetectIsConsistent(t *testing.T) {
	c := Detect()
	if c.Name == "" {
		t.Error("no name")
	}
	if c.Usable < 1 || c.Usable > c.PhysicalCores || c.PhysicalCores > c.LogicalCores || c.LogicalCores < runtime.NumCPU() {
		t.Errorf("usable %d <= physical %d <= logical %d, and logical >= %d: does not hold", c.Usable, c.PhysicalCores, c.LogicalCores, runtime.NumCPU())
	}
	if runtime.GOARCH == "arm64" && !c.NEON || runtime.GOARCH == "amd64" && c.NEON {
		t.Errorf("NEON %v on %s", c.NEON, runtime.GOARCH)
	}
	if c.VNNI && !c.AVX512 || c.AVX512 && !c.AVX2 {
		t.Errorf("impossible features %+v", c.Features)
	}
	t.Logf("%+v, default threads %d", c, DefaultThreads())
}

func TestIdleCores(t *testing.T) {
	for _, c := range []struct{ physical, usable, busy, want int }{
		{8, 8, 0, 8},
		{8, 8, 3, 5},
		{8, 8, 7, 4}, // half at least
		{8, 4, 3, 4}, // others run on the cores that are not ours
		{8, 4, 5, 3}, //
		{1, 1, 9, 1}, // one at least
		{16, 3, 16, 1},
	} {
		if got := idleCores(c.physical, c.usable, c.busy); got != c.want {
			t.Errorf("%d cores, %d usable, %d busy: %d threads, want %d", c.physical, c.usable, c.busy, got, c.want)
		}
	}
}

func TestMemoryOfThisMachine(t *testing.T) {
	m, err := ReadMemory()
	if err != nil {
		t.Skip(err)
	}
	if m.Total == 0 || m.Available > m.Total {
		t.Errorf("%+v", m)
	}
}
