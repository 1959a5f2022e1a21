package vulkan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Measurements of a device, for placement. A device that was measured holds the memory for it until it is closed.

const (
	probeBytes   = 4 << 30    // read by a pass: many times the largest caches
	probeWord    = 0x2545f491 // what they hold: zeros may be kept more cheaply
	probeTime    = 50e6       // nanoseconds that passes take at least, together
	probeRepeats = 5          // the best of them counts, or the median of latencies
	handOffs     = 64         // in a recording
	handOffCols  = 4096       // elements of the row that passes each way
	layerKernels = 20         // dispatches of a layer; each waits for the previous one
	launchLayers = 32         // in a recording
	copyBytes    = 128 << 20  // bytes of a transfer
)

// ReadBandwidth returns what the memory gives to a kernel that only reads, bytes per second.
func (d *Device) ReadBandwidth() (float64, error) {
	total := min(probeBytes, d.gpu.Info.Free/4)
	part := min(total, d.gpu.Span(), d.gpu.MaxMemory) / 16 * 16
	sum, err := d.alloc(4)
	if err != nil {
		return 0, err
	}
	var parts []driver.View
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

// readGroups are the workgroups of a pass: enough for every processor of the largest GPUs, several times.
const readGroups = 4096

// readAll reads v, of whole quads. Should a word not be probeWord, the word at sum becomes 1.
func (r *recorder) readAll(v, sum driver.View) {
	r.dispatch(call{
		shader: "read", local: elementwise, bind: []binding{read(v), update(sum)},
		push: []uint32{uint32(v.Size / 16), probeWord}, groups: [3]int{readGroups, 1, 1},
	})
}

// TransferBandwidth returns what the bus gives to copies from host memory to the device and back, bytes per second.
func (d *Device) TransferBandwidth() (up, down float64, err error) {
	size := min(copyBytes, d.gpu.Info.Free/8)
	var there, from, to driver.View
	for p, v := range map[driver.Purpose]*driver.View{driver.Local: &there, driver.Staged: &from, driver.ToHost: &to} {
		if *v, err = d.mem.Alloc(p, size); err != nil {
			return 0, 0, err
		}
	}
	clear(from.Host()) // pages that nobody touched are one page
	clear(to.Host())
	if up, err = d.rate(size, func(r *recorder) { r.copy(there, from) }); err != nil {
		return 0, 0, err
	}
	down, err = d.rate(size, func(r *recorder) { r.copy(to, there) })
	return up, down, err
}

// rate returns how many bytes per second the best of several submissions moved, each of as many passes of f, which move
// bytes, as take long enough to be timed.
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
	start := monotime.Now()
	if err := d.play(r.seg, &compute.Params{}); err != nil {
		return 0, err
	}
	return monotime.Since(start), nil
}

// HandOff returns the time that a row of activations takes from host memory through a kernel to the host again, as in a
// layer that both compute, in seconds.
func (d *Device) HandOff() (float64, error) {
	x, err := d.Tensor(1, handOffCols)
	if err != nil {
		return 0, err
	}
	row := make([]float32, handOffCols)
	body := func(v compute.Verbs) {
		r := v.Executor().(*recorder)
		for range handOffs {
			sent := r.Upload(x)
			v.Add(x, x)
			seen := r.Download(x)
			r.Overlap(func(*compute.Params) error { copy(row, seen()); copy(sent(), row); return nil }, nil)
		}
	}
	times := make([]time.Duration, probeRepeats)
	for i := range times {
		start := monotime.Now()
		if err := d.Run(compute.Segment{Name: "hand-off", Rows: 1}, &compute.Params{}, body); err != nil {
			return 0, err
		}
		times[i] = monotime.Since(start)
	}
	slices.Sort(times) // the first, which records, is the longest
	return times[len(times)/2].Seconds() / handOffs, nil
}

// Launch returns the time that the kernels of a layer take to start, one after the other, in seconds.
func (d *Device) Launch() (float64, error) {
	x, err := d.Tensor(1, 64)
	if err != nil {
		return 0, err
	}
	layers := func(n int) (time.Duration, error) {
		return d.timed(n, func(r *recorder) {
			for range layerKernels {
				r.add(x, x)
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

// Packing returns how many bytes of src's rows, as a file has them, are brought into the form that UploadWeights sends, a
// second. fill fills in the only matrix.
func (d *Device) Packing(src compute.Source, fill func(f compute.Filler)) (float64, error) {
	m, rows, regions, pack, err := laidOut(src, compute.Rows)
	if err != nil {
		return 0, err
	}
	p, end := placed(regions, rows)
	m.parts = []part{p}
	staged, err := d.mem.Alloc(driver.Staged, end)
	if err != nil {
		return 0, err
	}
	best := time.Duration(math.MaxInt64)
	for range 4 * probeRepeats {
		start := monotime.Now()
		fill(fillers{{src, p, regions, pack, staged}})
		best = max(1, min(best, monotime.Since(start)))
	}
	return float64(src.Rows*src.Type.RowBytes(src.Cols)) / best.Seconds(), nil
}

// Products returns the multiply-adds per second of products with src for a prompt of that many tokens.
func (d *Device) Products(src compute.Source, tokens int) (float64, error) {
	w, err := d.Matrix(src, compute.Dense)
	if err != nil {
		return 0, err
	}
	x, err := d.Tensor(tokens, src.Cols)
	if err != nil {
		return 0, err
	}
	out, err := d.Tensor(tokens, src.Rows)
	if err != nil {
		return 0, err
	}
	return d.rate(int64(tokens)*int64(src.Rows)*int64(src.Cols), func(r *recorder) {
		r.matMul(x, compute.Products{{Out: out, W: w}})
	})
}

// Trait is a property of a device, according to its driver.
type Trait struct{ Name, Value string }

// Traits returns what kernels and placement depend on, for reports.
func (d *Device) Traits() []Trait {
	g := d.gpu
	l, s := &g.Limits, g.Subgroup
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
	size := fmt.Sprint(s.Size)
	if s.Required {
		size += ", asked for"
	}
	if s.Full {
		size += ", full ones"
	}
	all := []Trait{
		{"kind", g.Info.Kind.String()},
		{"driver", g.Info.Driver},
		{"memory", driver.Mebibytes(g.Info.Memory) + ", free " + driver.Mebibytes(g.Info.Free)},
		{"the driver tells free memory", yes(g.Budgets)},
		{"subgroups", size},
		{"integer dot products", yes(g.Dot)},
		{"cooperative matrices", g.Matrices.String()},
		{"cooperative matrices of workgroups", g.Workgroup.String()},
		{"largest binding", driver.Mebibytes(g.Span())},
		{"largest allocation", driver.Mebibytes(g.MaxMemory)},
		{"bindings start at multiples of", fmt.Sprint(l.MinStorageBufferOffsetAlignment)},
		{"shared memory of a workgroup", fmt.Sprint(l.MaxComputeSharedMemorySize)},
		{"invocations of a workgroup", fmt.Sprint(l.MaxComputeWorkGroupInvocations)},
		{"workgroups", fmt.Sprint(l.MaxComputeWorkGroupCount)},
		{"queue families", fmt.Sprint(g.Families)},
	}
	for i, t := range g.Memory.MemoryTypes[:g.Memory.MemoryTypeCount] {
		all = append(all, Trait{fmt.Sprintf("memory type %d", i), memoryKind(t.PropertyFlags) + ", of " + driver.Mebibytes(int64(g.Memory.MemoryHeaps[t.HeapIndex].Size))})
	}
	return append(all, Trait{"extensions", strings.Join(g.Extensions, " ")})
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
