package vulkan

import (
	"errors"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// attentionTile is a shape of attention_tile.comp: the invocations of a workgroup, the positions computed at a time,
// and the matrices of each subgroup's rows.
type attentionTile struct{ local, positions, deep int }

// attentionTiles are the possible tiles, the best first.
var attentionTiles = []attentionTile{{256, 32, 1}, {128, 32, 1}, {64, 32, 1}, {64, 16, 1}}

const (
	chunkPositions = 512 // CHUNK of attention_tile.comp
	// From enoughAttention workgroups on, it does not pay to share a row's chunks among several.
	enoughAttention = 128
)

// rows returns the rows of a workgroup.
func (t attentionTile) rows(m driver.Matrices) int { return t.local / m.Subgroup * m.M * t.deep }

// bytes returns the shared memory of a workgroup.
func (t attentionTile) bytes(m driver.Matrices, l compute.KVShape) int {
	const each = 32 // bytes of a row besides the strip
	keys, values := ceil(l.Key, m.K)*m.K, ceil(l.Value, m.N)*m.N
	return t.positions*(2*keys+2*values+32) + t.rows(m)*(4*t.positions+16+each) + attentionRest
}

// fits reports whether the device's matrices make such tiles.
func (t attentionTile) fits(d *Device, l compute.KVShape) bool {
	m := d.gpu.Matrices
	if m.M == 0 || t.local%m.Subgroup != 0 || t.positions%m.N != 0 || t.positions%m.K != 0 || m.N%8 != 0 || m.K%8 != 0 || m.M*m.N%m.Subgroup != 0 {
		return false
	}
	lanes := max(1, m.Subgroup/(m.M*t.deep)) // lanes of a row
	return t.positions/lanes%8 == 0 && t.bytes(m, l) <= int(d.gpu.Limits.MaxComputeSharedMemorySize)
}

// byTile returns by which tiles rows of prompts attend, if by any: halves hold what the cache holds, and the sums of a
// subgroup's rows have room in registers.
func (f *attending) byTile() (attentionTile, bool) {
	const most = 256 // elements of a key, and of a value
	l := f.c.Layers[f.layer]
	if l.Within || l.Key%8 != 0 || l.Value%8 != 0 || max(l.Key, l.Value) > most {
		return attentionTile{}, false
	}
	for _, t := range []compute.KVType{l.KeyType, l.ValueType} {
		if t == compute.KVF32 || t == compute.KVBF16 {
			return attentionTile{}, false
		}
	}
	for _, t := range attentionTiles {
		if t.fits(f.r.d, l) {
			return t, f.r.d.canAttend(headShape{l.Key, l.Value}) == nil
		}
	}
	return attentionTile{}, false
}

// headShape are the elements of a key and of a value.
type headShape struct{ key, value int }

var errNotAsked = errors.New("another arithmetic was asked for")

// canAttend says why prompts do not attend by tiles with heads of that shape; nil: they do. The first time it is tried.
func (d *Device) canAttend(s headShape) error {
	if d.gpu.Counts() {
		return nil // it is taken to pass
	}
	err, tried := d.long.attended[s]
	if tried {
		return err
	}
	if d.long.attended == nil {
		d.long.attended = map[headShape]error{}
	}
	if d.long.asked == Ordered {
		return errNotAsked
	}
	if err = d.checkAttention(s); err != nil {
		err = fmt.Errorf("cooperative matrices are not used for attention with keys of %d elements and values of %d: %w", s.key, s.value, err)
	}
	d.long.attended[s] = err
	return err
}

// The test attention that a tile must compute correctly before it is used: rows of two sequences, more rows than a
// workgroup has and not a multiple of that, and first rows that see positions of two chunks.
const (
	attendRows, attendOthers = 140, 9
	attendFrom               = chunkPositions - 30
	attendKV, attendGroup    = 2, 2
	attendPages              = (attendFrom+attendRows)/compute.PagePositions + 2
	// attendTolerance is the share of the largest value that halves of queries and exponentials may cost.
	attendTolerance = 2e-3
	attendValue     = 9
	attendBudget    = 32 << 20 // bytes
)

func attendKey(seq, head, p, i int) float32 { return float32((7*p+3*i+5*head+seq)%17-8) / 8 }
func attendElement(seq, head, p, i int) float32 {
	return float32((3*p+5*i+7*head+seq)%19 - attendValue)
}
func attendQuery(row, i int) float32 { return float32((5*row+11*i)%13-6) / 16 }

// checkAttention attends with heads of a shape by the tiles that are used, and compares with the definition.
func (d *Device) checkAttention(s headShape) error {
	t := d.apart(attendBudget)
	t.long.asked, t.long.attended = Ordered, map[headShape]error{s: nil}
	defer t.reset()
	const n = attendRows + attendOthers
	spec := compute.CacheSpec{Layers: []compute.KVShape{{Heads: attendKV, Key: s.key, Value: s.value}}, Pages: attendPages}
	c, err := t.Cache(spec)
	if err != nil {
		return err
	}
	p := compute.Params{Tokens: make([]int32, n), Pages: [][]int32{nil, {attendPages - 1}}}
	for i := range int32(attendPages - 1) {
		p.Pages[0] = append(p.Pages[0], attendPages-2-i)
	}
	for i := range int32(n) {
		if i < attendRows {
			p.Seq, p.Pos = append(p.Seq, 0), append(p.Pos, attendFrom+i)
		} else {
			p.Seq, p.Pos = append(p.Seq, 1), append(p.Pos, i-attendRows)
		}
	}
	if err := t.fillCache(c, p.Pages); err != nil {
		return err
	}
	const heads = attendKV * attendGroup
	q, err := t.Tensor(n, heads*s.key)
	if err != nil {
		return err
	}
	out, err := t.Tensor(n, heads*s.value)
	if err != nil {
		return err
	}
	err = t.upload(floats(q), 4*int64(heads*s.key), func(dst []byte, first int) {
		for i, to := 0, numbers(dst); i < len(to); i++ {
			to[i] = attendQuery(first+i/(heads*s.key), i%(heads*s.key))
		}
	})
	if err != nil {
		return err
	}
	seg := compute.Segment{Name: "check", Rows: n}
	if err := t.Run(seg, &p, func(v compute.Verbs) { v.Attend(out, q, c, 0, compute.Attention{Scale: 0.5}) }); err != nil {
		return err
	}
	for row := 0; row < n; row += 29 {
		have, err := t.Read(out, row)
		if err != nil {
			return err
		}
		for h := range heads {
			for i, want := range attended(s, row, h, int(p.Seq[row]), int(p.Pos[row])) {
				if v := have[h*s.value+i]; !(math.Abs(float64(v)-want) <= attendTolerance*attendValue) {
					return fmt.Errorf("element %d of row %d of a known case is %g instead of %g", h*s.value+i, row, v, want)
				}
			}
		}
	}
	return nil
}

// fillCache writes the known case's keys and values.
func (d *Device) fillCache(c *compute.Cache, pages [][]int32) error {
	l := c.Layers[0]
	keys, values := cacheLayer(c, 0)
	for i, side := range sides(l) {
		view, element := keys, attendKey
		if i == 1 {
			view, element = values, attendElement
		}
		for seq, table := range pages {
			for j, page := range table {
				size := int64(l.Heads * side.pageBytes())
				err := d.upload(view.Slice(int64(page)*size, size), size, func(dst []byte, _ int) {
					row, numbers := make([]byte, side.rowBytes()), make([]float32, side.elements)
					for at := range l.Heads * compute.PagePositions {
						head, p := at/compute.PagePositions, at%compute.PagePositions
						for e := range numbers {
							numbers[e] = element(seq, head, j*compute.PagePositions+p, e)
						}
						quant.Encode(side.t.Type(), row, numbers)
						side.eachPiece(dst[head*side.pageBytes():][:side.pageBytes()], p, row, func(cached, outside []byte) { copy(cached, outside) })
					}
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// attended returns the result of a row's head in the known case, by the definition.
func attended(s headShape, row, head, seq, pos int) []float64 {
	kv := head / attendGroup
	out, shares, top := make([]float64, s.value), make([]float64, pos+1), math.Inf(-1)
	for p := range shares {
		for i := range s.key {
			shares[p] += 0.5 * float64(attendQuery(row, head*s.key+i)) * float64(attendKey(seq, kv, p, i))
		}
		top = max(top, shares[p])
	}
	sum := 0.0
	for p := range shares {
		shares[p] = math.Exp(shares[p] - top)
		sum += shares[p]
	}
	for i := range out {
		for p, share := range shares {
			out[i] += share / sum * float64(attendElement(seq, kv, p, i))
		}
	}
	return out
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
	r.dispatch(call{
		shader: driver.AttentionShader, local: t.local,
		spec: []uint32{
			uint32(l.Key), uint32(l.Value), uint32(g.together), uint32(t.positions), uint32(l.KeyType), uint32(l.ValueType),
			truth(f.how.Sinks != nil) | truth(f.how.Slopes != nil)<<1 | truth(f.how.Later)<<2 | truth(whole)<<3 | truth(r.d.gpu.Info.Kind != driver.CPU)<<4,
			uint32(m.M), uint32(m.N), uint32(m.K), uint32(t.deep),
		},
		bind: []binding{
			read(floats(f.q)), read(keys), read(values), update(floats(f.out)), read(r.params()),
			read(elementsOr(f.how.Sinks, floats(f.q))), read(elementsOr(f.how.Slopes, floats(f.q))), write(splits),
		},
		push: []uint32{
			uint32(first + n), uint32(f.heads), uint32(l.Heads), math.Float32bits(f.how.Scale), uint32(r.seg.params.rows), uint32(r.seg.params.out),
			window(f.how), math.Float32bits(f.how.SoftCap), truth(f.c.IsWindowed(f.layer)), uint32(first), uint32(g.chunks),
		},
		groups: [3]int{g.x, g.y, z},
	})
	if !whole {
		f.combine(splits, chunkPositions, g.chunks, first, n)
	}
}
