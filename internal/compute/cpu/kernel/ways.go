package kernel

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Order says which rows a product of one token reads, and how they are stored. A type has kernels for each order.
type Order int

// The orders.
const (
	Consecutive Order = iota // packed rows, one after the other
	Scattered                // packed rows chosen by index
	Mapped                   // rows one after the other, as the file has them
	Orders      = iota
)

func (o Order) String() string { return [Orders]string{"rows", "scattered rows", "mapped rows"}[o] }

// way is one of a type's kernels for one token, in one order. All ways of a type give the same bytes and differ only in
// speed. Which is the fastest depends on the processor.
type way struct {
	// name says how rows are read, and with which instructions. near leaves prefetching to the hardware, far prefetches
	// 8 KiB ahead. rows takes several rows at a time and prefetches the next, rows-close into the first-level cache and
	// not into the second; rows-near leaves that to the hardware. scatter4 and scatter1 take four rows and one at a
	// time and prefetch the next. file-near and file-far are for mapped rows.
	name string
	// One of these is set: stream takes any number of rows, tile and scatter a multiple of rows.
	stream  streamer
	tile    tile
	scatter scatterer
	rows    int
}

// streamer computes one token's products with consecutive rows. It keeps no pointer.
type streamer func(out *float32, w *byte, rowBytes uintptr, x *byte, n, rows uintptr)

// scatterer computes the products of one token's activations at x, n superblocks or groups of eight elements, with the
// rows of w that index lists.
type scatterer func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n, rows uintptr)

// ways are a type's kernels of one order. The first of Consecutive is a stream where the type has no kernel of one row.
type ways struct {
	all    []way // none: there is only plain Go
	chosen [Classes]int
}

// of returns the kernel for rows of class c; nil if there is none.
func (w *ways) of(c Class) *way {
	if len(w.all) == 0 {
		return nil
	}
	return &w.all[w.chosen[c]]
}

// threeWays lists an instruction set's kernels of consecutive rows. tile takes rows rows at a time.
func threeWays(isa string, near, far streamer, tile tile, rows int) []way {
	return []way{{name: "near-" + isa, stream: near}, {name: "far-" + isa, stream: far}, {name: "rows-" + isa, tile: tile, rows: rows}}
}

// usualWays are the usual ones of threeWays: the longer rows are, the less room activations leave in the first-level
// cache.
func usualWays(isa string) [Classes]string {
	return [Classes]string{"near-" + isa, "far-" + isa, "far-" + isa, "rows-" + isa}
}

// scatters lists an instruction set's kernels of scattered rows, of four at a time and of one; nil: it has none.
func scatters(isa string, four, one scatterer) (list []way) {
	if four != nil {
		list = append(list, way{name: "scatter4-" + isa, scatter: four, rows: 4})
	}
	if one != nil {
		list = append(list, way{name: "scatter1-" + isa, scatter: one, rows: 1})
	}
	return list
}

// all has every class go one way.
func all(name string) (usual [Classes]string) {
	for i := range usual {
		usual[i] = name
	}
	return usual
}

// Class is a range of lengths of rows, by the room that their activations leave in the first-level cache.
type Class int

// Classes is the number of classes.
const Classes = 4

// ClassOf returns the class of rows of cols elements of type t. Scattered rows of all lengths are of class 0.
func (k *Kernels) ClassOf(t quant.Type, o Order, cols int) Class {
	if o == Scattered {
		return 0
	}
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

// take gives type t its kernels of an order, in place of its present ones, and chooses the usual ones.
func (k *Kernels) take(t quant.Type, o Order, all []way, usual [Classes]string) {
	k.ways[t][o] = ways{all: all}
	for c, name := range usual {
		if err := k.Go(t, o, Class(c), name); err != nil {
			panic(err)
		}
	}
}

// Ways lists the names of the kernels that rows of type t may go by in an order.
func (k *Kernels) Ways(t quant.Type, o Order) []string {
	names := make([]string, len(k.ways[t][o].all))
	for i, w := range k.ways[t][o].all {
		names[i] = w.name
	}
	return names
}

// AllWays lists the names of Ways of every type and order.
func (k *Kernels) AllWays() []string {
	var names []string
	for _, t := range quant.Computed() {
		for o := range Order(Orders) {
			names = append(names, k.Ways(t, o)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Way returns the name of the kernel that rows of type t and class c go by in an order, "" where there is only plain
// Go.
func (k *Kernels) Way(t quant.Type, o Order, c Class) string {
	if w := k.ways[t][o].of(c); w != nil {
		return w.name
	}
	return ""
}

// Go has rows of type t and class c go by the named one of Ways.
func (k *Kernels) Go(t quant.Type, o Order, c Class, name string) error {
	i := slices.Index(k.Ways(t, o), name)
	if i < 0 {
		return fmt.Errorf("%s has no kernel %q for %s; it has these: %q", t, name, o, k.Ways(t, o))
	}
	k.ways[t][o].chosen[c] = i
	return nil
}

// by computes rows [r, end) of token t with w, and returns the first row that it did not compute.
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
