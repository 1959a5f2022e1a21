package vulkan

import (
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// TestPipelinesAtOnce: a pipeline that several threads ask for, ahead and at once, is compiled once; one that cannot be
// is the same error for all.
func TestPipelinesAtOnce(t *testing.T) {
	var mu sync.Mutex
	var last, total int
	d, messages := software(t, Options{Compiled: func(_ string, done, of int) {
		mu.Lock()
		defer mu.Unlock()
		last, total = max(last, done), max(total, of)
	}})
	defer messages.check(t)
	var all []driver.Variant
	for _, name := range []string{"add", "multiply", "gather", "none of that name"} {
		all = append(all, driver.Variant{Shader: name, Local: 64})
	}
	for _, v := range all[1:] {
		d.pipelines.Want(v)
	}
	const threads = 8
	var group sync.WaitGroup
	var made [threads][]vk.Pipeline
	for i := range threads {
		group.Go(func() {
			for k := range all {
				p, err := d.pipelines.Get(all[(k+i)%len(all)])
				if failed := all[(k+i)%len(all)].Shader == "none of that name"; failed != (err != nil) || failed != (p == 0) {
					t.Errorf("%s: pipeline %d, error %v", all[(k+i)%len(all)].Shader, p, err)
				}
			}
			for _, v := range all {
				p, _ := d.pipelines.Get(v)
				made[i] = append(made[i], p)
			}
		})
	}
	group.Wait()
	for i := range threads {
		for k := range all {
			if made[i][k] != made[0][k] {
				t.Errorf("%s is two pipelines", all[k].Shader)
			}
		}
	}
	if n := d.Unforeseen(); n != 1 {
		t.Errorf("%d pipelines were not foreseen, want the first", n)
	}
	d.pipelines.Want(driver.Variant{Shader: "scale", Local: 32}) // which may or may not have begun when the device is closed
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	d.pipelines.Want(driver.Variant{Shader: "scale", Local: 64}) // by a foresight that outlives it
	mu.Lock()
	defer mu.Unlock()
	if last > total || total < len(all)-1 || total > len(all) {
		t.Errorf("%d of %d are told of, and %d were wanted while it was open", last, total, len(all))
	}
}

// TestForesight: what a twin of the device records, the device compiles, to the last dispatch, and no memory is taken.
func TestForesight(t *testing.T) {
	d, messages := software(t, Options{})
	defer messages.check(t)
	defer d.Close()
	body := func(x, y compute.Tensor) func(compute.Verbs) {
		return func(v compute.Verbs) { v.Scale(x, 2); v.Add(x, y) }
	}
	seg, p := compute.Segment{Name: "both", Rows: 2}, &compute.Params{}
	twin := d.Foresight()
	used := d.Used()
	if err := twin.Record(seg, p, body(tensorOf(t, twin, 2, 8), tensorOf(t, twin, 2, 8))); err != nil {
		t.Fatal(err)
	}
	if d.Used() != used {
		t.Errorf("%d bytes are in use, and %d were", d.Used(), used)
	}
	if err := d.Run(seg, p, body(tensorOf(t, d, 2, 8), tensorOf(t, d, 2, 8))); err != nil {
		t.Fatal(err)
	}
	if n := d.Unforeseen(); n > 0 {
		t.Errorf("%d shaders were not foreseen", n)
	}
}
