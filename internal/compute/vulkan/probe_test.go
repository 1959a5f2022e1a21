package vulkan

import (
	"math"
	"testing"
)

// TestProbe: every figure can be taken, and is one that a machine may have. How large they are is no test's business.
func TestProbe(t *testing.T) {
	if testing.Short() {
		t.Skip("moves gigabytes")
	}
	d, messages := software(t, Options{})
	defer messages.check(t)
	defer d.Close()
	figure := func(name string, v float64, err error, most float64) {
		t.Helper()
		t.Logf("%s: %.3g", name, v)
		if err != nil || !(v >= 0 && v < most) || math.IsNaN(v) {
			t.Errorf("%s: %g, %v", name, v, err)
		}
	}
	v, err := d.ReadBandwidth()
	figure("read, bytes/s", v, err, 1e14)
	up, down, err := d.TransferBandwidth()
	figure("up, bytes/s", up, err, 1e14)
	figure("down, bytes/s", down, err, 1e14)
	v, err = d.HandOff()
	figure("hand-off, s", v, err, 10)
	v, err = d.Launch()
	figure("launch of a layer, s", v, err, 10)
}
