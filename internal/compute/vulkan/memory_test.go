package vulkan

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

func tensorOf(t *testing.T, d *Device, rows, cols int) compute.Tensor {
	t.Helper()
	x, err := d.Tensor(rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestBudget: what does not fit is an error with the figures, and the device goes on with what it has.
func TestBudget(t *testing.T) {
	const budget = 12 << 20
	d, messages := software(t, Options{Budget: budget})
	defer messages.check(t)
	defer d.Close()
	x, y := tensorOf(t, d, 4, 100), tensorOf(t, d, 4, 100)
	if _, err := d.Tensor(1024, 1024); err != nil {
		t.Fatal(err)
	}
	_, err := d.Tensor(2048, 1024)
	var full *OutOfMemory
	if !errors.As(err, &full) || full.Asked != 8<<20 || full.Budget != budget || full.Used != d.Used() || full.Used < 4<<20 || full.ByDriver {
		t.Fatalf("8 MiB more: error %v (%+v)", err, full)
	}
	if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "8.0 MiB") || !strings.Contains(err.Error(), "--vram-budget") {
		t.Errorf("the error says %q", err)
	}
	for _, size := range []int64{-1, 1 << 50} {
		if _, err := d.alloc(size); err == nil {
			t.Errorf("%d bytes were allocated", size)
		}
	}
	if err := d.Run(compute.Segment{Name: "add", Rows: 4}, &compute.Params{}, func(v compute.Verbs) { v.Add(x, y) }); err != nil {
		t.Error(err)
	}
	if d.Used() > budget {
		t.Errorf("%d bytes are in use of a budget of %d", d.Used(), budget)
	}
}

// TestAllocations: views are aligned, as large as asked for, and no two share a byte.
func TestAllocations(t *testing.T) {
	const seed = 8
	rng := rand.New(rand.NewPCG(seed, 0))
	d := lent(t)
	var all []driver.View
	for range 300 {
		size := int64(1 + rng.IntN(1<<rng.IntN(22)))
		v, err := d.mem.Alloc(driver.Purpose(rng.IntN(int(driver.ToHost)+1)), size)
		if err != nil {
			t.Fatal(err)
		}
		if v.Size < size || v.Size > size+3 || v.At%d.gpu.Alignment() != 0 || v.At+v.Size > v.Slab.Size {
			t.Fatalf("seed %d: %d bytes asked for: a view of %d at %d of %d", seed, size, v.Size, v.At, v.Slab.Size)
		}
		if slices.ContainsFunc(all, func(o driver.View) bool { return overlap(o, v) }) {
			t.Fatalf("seed %d: %+v lies in another view", seed, v)
		}
		all = append(all, v)
	}
}

// TestUpload: what goes up in pieces comes back whole, and its progress is told.
func TestUpload(t *testing.T) {
	const seed = 4
	rng := rand.New(rand.NewPCG(seed, 0))
	told := int64(0)
	d, messages := software(t, Options{Uploaded: func(n int64) { told += n }})
	defer messages.check(t)
	defer d.Close()
	for _, c := range []struct{ unit, rows int }{{4, 1}, {20, 3}, {1 << 20, 11}, {3 << 20, 3}, {100, 100000}, {stageHalf, 3}} {
		want := make([]byte, c.unit*c.rows)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		v, err := d.alloc(int64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		told = 0
		if err := d.upload(v, int64(c.unit), func(dst []byte, first int) { copy(dst, want[first*c.unit:]) }); err != nil {
			t.Fatal(err)
		}
		if told != int64(len(want)) {
			t.Errorf("%d rows of %d: %d bytes of progress", c.rows, c.unit, told)
		}
		back, err := d.mem.Alloc(driver.ToHost, v.Size)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.once(func(r *recorder) { r.copy(back, v) }); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Host(), want) {
			t.Errorf("seed %d: %d rows of %d came back otherwise", seed, c.rows, c.unit)
		}
	}
	if v, err := d.alloc(stageHalf + 4); err != nil || d.upload(v, stageHalf+4, nil) == nil {
		t.Error("a row larger than the stage was taken")
	}
}

// TestLost: a device that failed says so at every step and at every reading of a result, and can be closed.
func TestLost(t *testing.T) {
	d, _ := software(t, Options{})
	x := tensorOf(t, d, 2, 10)
	d.gpu.Fail(vk.ErrorDeviceLost)
	for range 2 {
		err := d.Run(compute.Segment{Name: "add", Rows: 2}, &compute.Params{}, func(v compute.Verbs) { v.Add(x, x) })
		if !errors.Is(err, ErrLost) {
			t.Errorf("run: error %v", err)
		}
	}
	if _, err := d.Read(x, 1); !errors.Is(err, ErrLost) {
		t.Errorf("read: error %v", err)
	}
	if err := d.Close(); !errors.Is(err, ErrLost) {
		t.Errorf("close: error %v", err)
	}
}
