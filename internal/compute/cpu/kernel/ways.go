package kernel

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// way is one of a type's kernels for one token and consecutive packed rows. All of a type give the same bytes, so that which one runs is a
// question of speed alone, which processors answer differently.
type way struct {
	// name says how rows are read, and by which instructions: near leaves memory to the hardware's prefetchers, far asks for it 8 KiB
	// ahead, rows takes several rows at a time and asks for the next, and rows-near does so and leaves memory to the hardware.
	name   string
	stream func(out *float32, w *byte, rowBytes uintptr, x *byte, n, rows uintptr)
	tile   tile // instead of stream
	rows   int  // of a tile
}

// ways are a type's, the first of them a stream where the type has no kernel of one row, and the usual one of each class.
type ways struct {
	all   []way
	usual [Classes]string
}

// scatter is one of a type's kernels for one token and packed rows chosen by index. All of a type give the same bytes, too.
type scatter struct {
	name string // how many rows it computes at a time, and by which instructions
	run  scatterer
	rows int // it takes a multiple of so many
}

// scatterer computes the products of one token's activations at x, n superblocks or groups of eight elements, with the rows of w that index lists.
type scatterer func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n, rows uintptr)

// scatters lists the kernels of an instruction set that take four rows at a time and one; nil: it has none. The first is the usual one.
func scatters(isa string, four, one scatterer) (list []scatter) {
	if four != nil {
		list = append(list, scatter{"scatter4-" + isa, four, 4})
	}
	if one != nil {
		list = append(list, scatter{"scatter1-" + isa, one, 1})
	}
	return list
}

// Scatters lists the names of the kernels that rows of type t which are chosen by index may go by.
func (k *Kernels) Scatters(t quant.Type) []string {
	names := make([]string, len(k.types[t].scatters))
	for i, s := range k.types[t].scatters {
		names[i] = s.name
	}
	return names
}

// Scatter returns the name of the kernel that rows of type t which are chosen by index go by, "" where there is only plain Go.
func (k *Kernels) Scatter(t quant.Type) string {
	m := &k.types[t]
	if len(m.scatters) == 0 {
		return ""
	}
	return m.scatters[m.chosenScatter].name
}

// GoScattered has rows of type t which are chosen by index go by the named one of Scatters.
func (k *Kernels) GoScattered(t quant.Type, name string) error {
	i := slices.Index(k.Scatters(t), name)
	if i < 0 {
		return fmt.Errorf("%s has no kernel %q for scattered rows; it has these: %q", t, name, k.Scatters(t))
	}
	k.types[t].chosenScatter = i
	return nil
}

// Class is a range of lengths of rows, by the room that their activations leave in the first-level cache.
type Class int

// Classes is the number of classes.
const Classes = 4

// ClassOf returns the class of rows of cols elements of type t.
func (k *Kernels) ClassOf(t quant.Type, cols int) Class {
	c := k.call(t, nil, 0, nil, cols, nil, 0)
	return classOf(c.n * c.xStep)
}

func classOf(acts int) Class {
	switch {
	case acts <= nearActs:
		return 0
	case acts < streamActs:
		return 1
	case acts < farActs:
		return 2
	}
	return 3
}

// take gives type t its ways.
func (k *Kernels) take(t quant.Type, w ways) {
	k.types[t].ways = w
	for c := range Classes {
		if err := k.Go(t, Class(c), w.usual[c]); err != nil {
			panic(err)
		}
	}
}

// Ways lists the names of the kernels that rows of type t may go by.
func (k *Kernels) Ways(t quant.Type) []string {
	names := make([]string, len(k.types[t].ways.all))
	for i, w := range k.types[t].ways.all {
		names[i] = w.name
	}
	return names
}

// AllWays lists the names of Ways, FileWays and Scatters of every type.
func (k *Kernels) AllWays() []string {
	var names []string
	for _, t := range quant.Computed() {
		names = slices.Concat(names, k.Ways(t), k.FileWays(t), k.Scatters(t))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Way returns the name of the kernel that rows of type t and class c go by, "" where there is only plain Go.
func (k *Kernels) Way(t quant.Type, c Class) string {
	if w := k.types[t].chosen[c]; w != nil {
		return w.name
	}
	return ""
}

// Go has rows of type t and class c go by the named one of Ways.
func (k *Kernels) Go(t quant.Type, c Class, name string) error {
	m := &k.types[t]
	i := slices.IndexFunc(m.ways.all, func(w way) bool { return w.name == name })
	if i < 0 {
		return fmt.Errorf("%s has no kernel %q; it has these: %q", t, name, k.Ways(t))
	}
	m.chosen[c] = &m.ways.all[i]
	return nil
}

// by computes rows [r, end) of token t the way w goes, and returns the row behind the last it took.
func (c *call) by(w *way, r, end, t int) int {
	if w.tile != nil {
		for ; r+w.rows <= end; r += w.rows {
			c.run(w.tile, r, t)
		}
		return r
	}
	for r < end {
		n := min(end-r, c.rowsPerCall())
		w.stream(&c.out[t*c.outStride+r], (*byte)(unsafe.Add(c.w, r*c.rowBytes)), uintptr(c.rowBytes),
			(*byte)(unsafe.Add(c.x, t*c.xStride)), uintptr(c.n), uintptr(n))
		r += n
	}
	return r
}

// all has every class go one way.
func all(name string) (usual [Classes]string) {
	for i := range usual {
		usual[i] = name
	}
	return usual
}
