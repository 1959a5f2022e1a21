package vulkan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/clock"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// What a device reaches, as placement wants to know it. A device that was measured holds the memory of it until it is closed.

const (
	probeBytes   = 4 << 30    // read by a pass: many times the largest caches
	probeWord    = 0x2545f491 // what they hold: zeros may be kept more cheaply
	probeTime    = 50e6       // nanoseconds that passes take at least, together
	probeRepeats = 5          // of which the best counts, or of latencies the median
	handOffs     = 64         // in a recording
	handOffCols  = 4096       // of the row that passes each way
	layerKernels = 20         // dispatches of a layer, each of which waits for the one before
	launchLayers = 32         // in a recording
	copyBytes    = 128 << 20  // of a transfer
)

// ReadBandwidth is what the memory gives to a kernel that only reads, bytes per second.
func (d *Device) ReadBandwidth() (float64, error) {
	total := min(probeBytes, d.gpu.info.Free/4)
	part := min(total, d.gpu.span(), d.gpu.maxMemory) / 16 * 16
	sum, err := d.alloc(4)
	if err != nil {
		return 0, err
	}
	var parts []view
	for read := int64(0); read+part <= total; read += part {
		v, err := d.alloc(part)
		if err == nil {
			err = d.once(func(r *recorder) { r.fill(v, probeWord) })
		}
		if err != nil {
			return 0, err
		}
		parts = append(parts, v)
	}
	return d.rate(part*int64(len(parts)), func(r *recorder) {
		for _, v := range parts {
			r.readAll(v, sum)
		}
	})
}

// readGroups are the workgroups of a pass: enough for every processor of the largest cards, several times.
const readGroups = 4096

// readAll reads v, of whole quads. Should a word not be probeWord, the word at sum becomes 1.
func (r *recorder) readAll(v, sum view) {
	r.dispatch(call{
		shader: "read", local: elementwise, bind: []binding{read(v), update(sum)},
		push: []uint32{uint32(v.size / 16), probeWord}, groups: [3]int{readGroups, 1, 1},
	})
}

// TransferBandwidth is what the bus gives to copies from host memory to the device and back, bytes per second.
func (d *Device) TransferBandwidth() (up, down float64, err error) {
	size := min(copyBytes, d.gpu.info.Free/8)
	var there, from, to view
	for p, v := range map[purpose]*view{local: &there, staged: &from, toHost: &to} {
		if *v, err = d.mem.alloc(p, size); err != nil {
			return 0, 0, err
		}
	}
	clear(from.host()) // pages that nobody touched are one page
	clear(to.host())
	if up, err = d.rate(size, func(r *recorder) { r.copy(there, from) }); err != nil {
		return 0, 0, err
	}
	down, err = d.rate(size, func(r *recorder) { r.copy(to, there) })
	return up, down, err
}

// rate is how many bytes per second the best of several submissions moved, each of as many passes of f, which move bytes, as take long
// enough to be timed.
func (d *Device) rate(bytes int64, f func(r *recorder)) (float64, error) {
	passes, best := 1, 0.0
	for range probeRepeats {
		var took time.Duration
		for {
			var err error
			if took, err = d.timed(passes, f); err != nil {
				return 0, err
			}
			if took > probeTime || passes > 1<<12 {
				break
			}
			passes = 1 + int(float64(passes)*probeTime*1.2/float64(took+1))
		}
		best = max(best, float64(passes)*float64(bytes)/took.Seconds())
	}
	return best, nil
}

// timed records passes of f and times from their submission to the end.
func (d *Device) timed(passes int, f func(r *recorder)) (time.Duration, error) {
	r := &recorder{d: d, seg: &segment{}}
	r.begin()
	for range passes {
		f(r)
	}
	r.leg(nil, nil)
	defer d.free(r.seg)
	if r.err != nil {
		return 0, r.err
	}
	start := clock.Now()
	if err := d.play(r.seg, nil); err != nil {
		return 0, err
	}
	return clock.Since(start), nil
}

// HandOff is the time that a row of activations takes from host memory through a kernel to the host again, as in a layer that both
// compute, in seconds.
func (d *Device) HandOff() (float64, error) {
	x, err := d.Tensor(1, handOffCols)
	if err != nil {
		return 0, err
	}
	row := make([]float32, handOffCols)
	body := func(v compute.Verbs) {
		r := v.(*recorder)
		for range handOffs {
			sent := r.Take(x)
			v.Add(x, x)
			seen := r.Show(x)
			r.Beside(func(*compute.Params) error { copy(row, seen()); copy(sent(), row); return nil }, nil)
		}
	}
	times := make([]time.Duration, probeRepeats)
	for i := range times {
		start := clock.Now()
		if err := d.Run(compute.Segment{Name: "hand-off", Rows: 1}, &compute.Params{}, body); err != nil {
			return 0, err
		}
		times[i] = clock.Since(start)
	}
	slices.Sort(times) // the first, which records, is the longest
	return times[len(times)/2].Seconds() / handOffs, nil
}

// Launch is the time that the kernels of a layer take to start, one after the other, in seconds.
func (d *Device) Launch() (float64, error) {
	x, err := d.Tensor(1, 64)
	if err != nil {
		return 0, err
	}
	layers := func(n int) (time.Duration, error) {
		return d.timed(n, func(r *recorder) {
			for range layerKernels {
				r.Add(x, x)
			}
		})
	}
	best := 0.0
	for i := range probeRepeats {
		one, err := layers(1)
		if err != nil {
			return 0, err
		}
		many, err := layers(1 + launchLayers)
		if err != nil {
			return 0, err
		}
		if took := max(0, many-one).Seconds() / launchLayers; i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// Trait is something that a device has, as its driver tells it.
type Trait struct{ Name, Value string }

// Traits are what kernels and placement depend on, for reports.
func (d *Device) Traits() []Trait {
	g := d.gpu
	l, s := &g.limits, g.subgroup
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
	size := fmt.Sprint(s.size)
	if s.required {
		size += ", asked for"
	}
	if s.full {
		size += ", full ones"
	}
	all := []Trait{
		{"kind", g.info.Kind.String()},
		{"driver", g.info.Driver},
		{"memory", mebibytes(g.info.Memory) + ", free " + mebibytes(g.info.Free)},
		{"the driver tells free memory", yes(g.budgets)},
		{"subgroups", size},
		{"integer dot products", yes(g.dot)},
		{"cooperative matrices", g.matrices.String()},
		{"largest binding", mebibytes(g.span())},
		{"largest allocation", mebibytes(g.maxMemory)},
		{"bindings start at multiples of", fmt.Sprint(l.MinStorageBufferOffsetAlignment)},
		{"shared memory of a workgroup", fmt.Sprint(l.MaxComputeSharedMemorySize)},
		{"invocations of a workgroup", fmt.Sprint(l.MaxComputeWorkGroupInvocations)},
		{"workgroups", fmt.Sprint(l.MaxComputeWorkGroupCount)},
		{"queue family", fmt.Sprint(g.family)},
	}
	for i, t := range g.memory.MemoryTypes[:g.memory.MemoryTypeCount] {
		all = append(all, Trait{fmt.Sprintf("memory type %d", i), memoryKind(t.PropertyFlags) + ", of " + mebibytes(int64(g.memory.MemoryHeaps[t.HeapIndex].Size))})
	}
	return append(all, Trait{"extensions", strings.Join(g.extensions, " ")})
}

// memoryKind names the properties of a type of memory.
func memoryKind(flags uint32) string {
	var names []string
	for _, p := range []struct {
		bit  uint32
		name string
	}{{vk.MemoryDeviceLocal, "device"}, {vk.MemoryHostVisible, "host sees it"}, {vk.MemoryHostCoherent, "coherent"}, {vk.MemoryHostCached, "cached"}} {
		if flags&p.bit != 0 {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return "plain"
	}
	return strings.Join(names, ", ")
}
