package vulkan

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestProbe: every figure can be taken, and is one that a machine may have. How large they are is no test's business.
func TestProbe(t *testing.T) {
	testenv.Thorough(t) // it moves gigabytes
	d := lent(t)
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
	src := compute.Source{Name: "w", Type: quant.Q4_0, Rows: 64, Cols: 256, Data: make([]byte, 64*quant.Q4_0.RowBytes(256))}
	v, err = d.Packing(src, func(f compute.Filler) { f.Fill(0, src.Data) })
	figure("packed, bytes/s", v, err, 1e14)
	v, err = d.Products(src, 70)
	figure("products/s", v, err, 1e15)
}

// TestReadAll: the kernel that measures the bandwidth reads every word.
func TestReadAll(t *testing.T) {
	d := lent(t)
	const quads = 3*readGroups*elementwise + 5 // some invocations end in the middle of their loop
	memory, err := d.alloc(16 * quads)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := d.Tensor(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	noticed := func(wrong int64) bool { // a wrong word; -1: none
		err := d.once(func(r *recorder) {
			r.fill(memory, probeWord)
			if wrong >= 0 {
				r.fill(memory.Slice(4*wrong, 4), probeWord+1)
			}
			r.fill(floats(sum), 0)
			r.readAll(memory, floats(sum))
		})
		if err != nil {
			t.Fatal(err)
		}
		d.seen.restart()
		return readable(d.Read(sum, 0))[0] != 0
	}
	if noticed(-1) {
		t.Error("a word differs where none does")
	}
	for _, wrong := range []int64{0, 1, 4*quads/3 + 2, 2*quads + 3, 4*quads - 1} {
		if !noticed(wrong) {
			t.Errorf("word %d of %d was not read", wrong, 4*quads)
		}
	}
}

func TestTraits(t *testing.T) {
	d := lent(t)
	seen := map[string]string{}
	for _, trait := range d.Traits() {
		if trait.Name == "" || trait.Value == "" || seen[trait.Name] != "" {
			t.Errorf("trait %q is %q, and was %q", trait.Name, trait.Value, seen[trait.Name])
		}
		seen[trait.Name] = trait.Value
	}
	if d.Info().Kind == CPU && (seen["kind"] != "software" || seen["largest binding"] != "128.0 MiB") {
		t.Errorf("lavapipe is %q with bindings of %q", seen["kind"], seen["largest binding"])
	}
}
