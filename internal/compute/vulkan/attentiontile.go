package vulkan

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
)

// attentionTile is a shape of the tiles by which rows of prompts attend.
type attentionTile struct {
	by        Arithmetic // Matrices: attention_tile.comp; Groups: attention_workgroup.comp
	local     int        // invocations of a workgroup
	positions int        // that are computed at a time
	deep      int        // of Matrices: the matrices of each subgroup's rows
	tall      int        // of Groups: rows of a workgroup
}

// attentionTiles are the tiles of Matrices, the best first, and attentionGroups those of Groups.
var (
	attentionTiles = []attentionTile{
		{by: Matrices, local: 256, positions: 32, deep: 1},
		{by: Matrices, local: 128, positions: 32, deep: 1},
		{by: Matrices, local: 64, positions: 32, deep: 1},
		{by: Matrices, local: 64, positions: 16, deep: 1},
	}
	attentionGroups = []attentionTile{
		{by: Groups, local: 128, positions: 64, tall: 64},
		{by: Groups, local: 256, positions: 64, tall: 128},
		{by: Groups, local: 256, positions: 32, tall: 64},
	}
)

const (
	chunkPositions = 512 // CHUNK of attentionrows.glsl
	// From enoughAttention workgroups on, it does not pay to share a row's chunks among several.
	enoughAttention = 128
)

func (t attentionTile) String() string {
	return fmt.Sprintf("%s, %d invocations, %d positions, %d rows", t.by, t.local, t.positions, t.deep+t.tall)
}

// rows returns the rows of a workgroup.
func (t attentionTile) rows(m driver.Matrices) int {
	if t.by == Groups {
		return t.tall
	}
	return t.local / m.Subgroup * m.M * t.deep
}

// bytes returns the shared memory of a workgroup, with what the driver takes for Groups.
func (t attentionTile) bytes(g *driver.GPU, k attentionKind) int {
	const each = 32 // bytes of a row, which both have
	m := g.Matrices
	if t.by == Groups {
		return t.tall*(each+16) + attentionRest + g.Workgroup.Shared
	}
	keys, values := ceil(k.key, m.K)*m.K, ceil(k.value, m.N)*m.N
	return t.positions*(2*keys+2*values+32) + t.rows(m)*(4*t.positions+16+each) + attentionRest
}

// fits reports whether the device's matrices make such tiles.
func (t attentionTile) fits(g *driver.GPU, k attentionKind) bool {
	m, w := g.Matrices, &g.Workgroup
	if t.by == Groups {
		if !k.halves || !w.Multiplies(t.tall, t.positions, k.key, t.local) || !w.Multiplies(t.tall, k.value, t.positions, t.local) {
			return false
		}
	} else {
		if m.M == 0 || t.local%m.Subgroup != 0 || t.positions%m.N != 0 || t.positions%m.K != 0 || m.N%8 != 0 || m.K%8 != 0 || m.M*m.N%m.Subgroup != 0 {
			return false
		}
		lanes := max(1, m.Subgroup/(m.M*t.deep)) // lanes of a row
		if t.positions/lanes%8 != 0 {
			return false
		}
	}
	return t.bytes(g, k) <= int(g.Limits.MaxComputeSharedMemorySize)
}

// attentionKind says what shaders of prompts' attention are compiled for.
type attentionKind struct {
	key, value           int  // elements of a head
	halves               bool // the cache is in F16
	sinks, slopes, later bool
}

func (k attentionKind) String() string {
	s := fmt.Sprintf("attention with keys of %d elements and values of %d", k.key, k.value)
	for _, has := range []struct {
		it   bool
		name string
	}{{k.halves, "in F16"}, {k.sinks, "sinks"}, {k.slopes, "slopes"}, {k.later, "later positions"}} {
		if has.it {
			s += ", " + has.name
		}
	}
	return s
}

// byTiles returns the tiles by which rows of prompts attend; none: they go another way. A device that only counts
// returns all that may be chosen.
func (f *attending) byTiles() []attentionTile {
	const most = 256 // elements of a key, and of a value: the sums of a subgroup's rows have room in registers
	l := f.c.Layers[f.layer]
	if l.Within || l.Key%8 != 0 || l.Value%8 != 0 || max(l.Key, l.Value) > most {
		return nil
	}
	for _, t := range []compute.KVType{l.KeyType, l.ValueType} {
		if t == compute.KVF32 || t == compute.KVBF16 { // halves do not hold what they hold
			return nil
		}
	}
	return f.r.d.promptAttention(attentionKind{
		key: l.Key, value: l.Value, halves: l.KeyType == compute.KVF16 && l.ValueType == compute.KVF16,
		sinks: f.how.Sinks != nil, slopes: f.how.Slopes != nil, later: f.how.Later,
	})
}

// promptAttention returns the tiles by which prompts attend in layers of a kind, as byTiles does. The first time, those
// that there are compute a known case, and the fastest of them is found.
func (d *Device) promptAttention(k attentionKind) []attentionTile {
	if chosen, ok := d.long.attention[k]; ok {
		return chosen
	}
	tiles := d.fitting(k)
	if d.gpu.Counts() {
		return tiles // they are taken to pass
	}
	tiles = slices.DeleteFunc(tiles, func(t attentionTile) bool { return d.canAttend(k, t) != nil })
	if len(tiles) > 1 {
		tiles = []attentionTile{d.fastestAttention(k, tiles)}
	}
	if d.long.attention == nil {
		d.long.attention = map[attentionKind][]attentionTile{}
	}
	d.long.attention[k] = tiles
	return tiles
}

// PromptAttention returns by which cooperative matrices prompts attend in layers with a cache in F16 and heads of that
// many elements, Ordered if by none, and why not by others.
func (d *Device) PromptAttention(key, value int) (Arithmetic, error) {
	a := Ordered
	for _, t := range d.promptAttention(attentionKind{key: key, value: value, halves: true}) {
		a = t.by
	}
	return a, sorted(maps.Values(d.long.attended))
}

// fitting returns the tiles for layers of a kind that the device makes and was asked for, the first of Matrices first.
func (d *Device) fitting(k attentionKind) (fit []attentionTile) {
	if d.long.asked == Ordered {
		return nil
	}
	fits := func(t attentionTile) bool { return t.fits(d.gpu, k) }
	if i := slices.IndexFunc(attentionTiles, fits); i >= 0 {
		fit = append(fit, attentionTiles[i])
	}
	for _, t := range attentionGroups {
		if fits(t) && (d.long.asked == Best || d.long.asked == Groups) {
			fit = append(fit, t)
		}
	}
	if d.long.asked == Groups && len(fit) > 1 { // Matrices compute what Groups do not
		fit = slices.DeleteFunc(fit, func(t attentionTile) bool { return t.by != Groups })
	}
	return fit
}

// tileGrid says how tiles share the attention of some tokens.
type tileGrid struct {
	together int   // query heads of a workgroup
	x, y     int   // workgroups of rows and of heads
	chunks   int   // chunks of positions
	parts    int64 // bytes of what workgroups leave that share a row's chunks; 0: none share them
}

// grid returns the grid for n tokens.
func (f *attending) grid(t attentionTile, n int) tileGrid {
	l, rows := &f.c.Layers[f.layer], t.rows(f.r.d.gpu.Matrices)
	g := tileGrid{together: max(1, min(f.group, rows/n)), chunks: ceil(f.c.Pages*compute.PagePositions, chunkPositions)}
	if t.by == Groups { // together divides rows and f.group
		for g.together = 1; 2*g.together <= rows/n && f.group%(2*g.together) == 0; {
			g.together *= 2
		}
	}
	g.x, g.y = ceil(n, rows/g.together), l.Heads*ceil(f.group, g.together)
	parts := 4 * int64(n) * int64(f.heads) * int64(g.chunks) * int64(l.Value+2)
	if g.chunks > 1 && g.x*g.y < enoughAttention && parts <= min(f.r.d.maxBinding, splitBytes) {
		g.parts = parts
	}
	return g
}

// tiles computes n tokens from first on by cooperative matrices. Where they are few, the chunks of the positions are
// shared among workgroups, and combine.comp puts their parts together. Both give the same bytes.
func (f *attending) tiles(t attentionTile, first, n int) {
	if n == 0 {
		return
	}
	r, l, m := f.r, &f.c.Layers[f.layer], f.r.d.gpu.Matrices
	if r.d.gpu.Counts() { // a shorter prompt may take more memory than a long one, which shares nothing
		most := int64(0)
		for n := range n {
			most = max(most, f.grid(t, n+1).parts)
		}
		if most > 0 {
			r.scratch("attention", most)
		}
	}
	g := f.grid(t, n)
	splits, whole, z := floats(f.out), g.parts == 0, 1 // placeholders if there are none
	if !whole {
		splits, z = r.scratch("attention", g.parts), max(1, min(g.chunks, splitGroups/(g.x*g.y)))
	}
	keys, values := cacheLayer(f.c, f.layer)
	has := truth(f.how.Sinks != nil) | truth(f.how.Slopes != nil)<<1 | truth(f.how.Later)<<2 | truth(whole)<<3 | truth(r.d.gpu.Info.Kind != driver.CPU)<<4
	c := call{
		shader: driver.AttentionShader, local: t.local,
		spec: []uint32{uint32(l.Key), uint32(l.Value), uint32(g.together), uint32(t.positions)},
		bind: []binding{
			read(floats(f.q)), read(keys), read(values), update(floats(f.out)), read(r.params()),
			read(elementsOr(f.how.Sinks, floats(f.q))), read(elementsOr(f.how.Slopes, floats(f.q))), write(splits),
		},
		push: []uint32{
			uint32(first + n), uint32(f.heads), uint32(l.Heads), math.Float32bits(f.how.Scale), uint32(r.seg.params.rows), uint32(r.seg.params.out),
			window(f.how), math.Float32bits(f.how.SoftCap), truth(f.c.IsWindowed(f.layer)), uint32(first), uint32(g.chunks),
		},
		groups: [3]int{g.x, g.y, z},
	}
	if t.by == Groups {
		q := operand{r: r, x: compute.Tensor{Rows: f.q.Rows * f.heads, Cols: l.Key, Mem: f.q.Mem}, name: "attention's rows"}
		rows, scales := q.halves(Groups)
		c.shader, c.bind[0] = "attention_workgroup", read(rows)
		c.spec = append(c.spec, has, uint32(t.tall))
		c.push = append(c.push, uint32(ceil(l.Key, shaders.PaddedColumns)*shaders.PaddedColumns), scales)
	} else {
		c.spec = append(c.spec, uint32(l.KeyType), uint32(l.ValueType), has, uint32(m.M), uint32(m.N), uint32(m.K), uint32(t.deep))
	}
	r.dispatch(c)
	if !whole {
		f.combine(splits, chunkPositions, g.chunks, first, n)
	}
}
