package vulkan

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// matrix is a weight as the device holds it; shaders/weights.glsl reads it.
type matrix struct {
	parts  []part
	layout layout
	units  int  // units of a row
	head   bool // its use is Head or Lookup: all products with it are summed in order
	some   bool // it has some of a larger matrix's rows: a product writes some columns of its output
}

// whole reports whether one dispatch with m's only part writes all of a product.
func (m *matrix) whole() bool { return len(m.parts) == 1 && !m.some }

// part is a range of rows in one binding. The size of a binding is limited.
type part struct {
	first, rows int
	memory      driver.View
	regions     [4]int64 // where they begin, in bytes
}

// layout says what the rows in memory are.
type layout int

// The layouts.
const (
	plain   layout = iota // the matrix's rows
	neurons               // neurons: rows with use Rows, or columns of floats with use Columns
	groups                // neurons: columns in groups of 32, which share scales
)

func mem(m *compute.Matrix) *matrix { return m.Mem.(*matrix) }

// unitElems returns how many elements of t a unit has.
func unitElems(t quant.Type) int {
	if t.Quantised() {
		return quant.QK
	}
	return 32 / t.BlockBytes()
}

// push returns the words of Weights in shaders/weights.glsl for a part.
func (m *matrix) push(p *part) []uint32 {
	return []uint32{uint32(m.units), uint32(p.regions[1] / 4), uint32(p.regions[2] / 4), uint32(p.regions[3] / 4)}
}

// bytes returns what m takes.
func (m *matrix) bytes() (n int64) {
	for i := range m.parts {
		n += m.parts[i].memory.Size
	}
	return n
}

// region is one array of a matrix: an item for every row, or for every group of rows.
type region struct {
	rows int // that an item has
	size int // bytes of an item
	pack func(dst, file []byte)
}

// rowRegions returns the regions of a matrix of rows of units, which pack writes from rows in file layout.
func rowRegions(t quant.Type, units int) []region {
	blocks := func(bytes, from, to int) func(dst, file []byte) { // bytes from…to of every block
		return func(dst, file []byte) { packBlocks(dst, file, bytes, from, to) }
	}
	super := units / (quant.QKK / quant.QK)
	switch t {
	case quant.Q4_0:
		return []region{{1, 16 * units, blocks(18, 2, 18)}, {1, 2 * units, blocks(18, 0, 2)}}
	case quant.Q4_1:
		return []region{{1, 16 * units, blocks(20, 4, 20)}, {1, 4 * units, blocks(20, 0, 4)}}
	case quant.Q8_0:
		return []region{{1, 32 * units, blocks(34, 2, 34)}, {1, 2 * units, blocks(34, 0, 2)}}
	case quant.Q4_K:
		return []region{{1, 16 * units, func(dst, file []byte) { packPairs(dst, file, 144, 16) }}, {1, 16 * super, blocks(144, 0, 16)}}
	case quant.Q5_K:
		return []region{
			{1, 16 * units, func(dst, file []byte) { packPairs(dst, file, 176, 48) }},
			{1, 4 * units, func(dst, file []byte) { packHighBits(dst, file, 176, 16) }},
			{1, 16 * super, blocks(176, 0, 16)},
		}
	case quant.Q6_K:
		return []region{{1, 16 * units, packQ6_K}, {1, 8 * units, func(dst, file []byte) { packBitPairs(dst, file, 210, 128) }}, {1, 16 * super, blocks(210, 192, 208)}, {1, 2 * super, blocks(210, 208, 210)}}
	}
	if t.Parted() {
		return partRegions(t, units)
	}
	return []region{{1, 32 * units, func(dst, file []byte) { clear(dst[copy(dst, file):]) }}}
}

// packBlocks copies bytes from…to, two, four or a multiple of eight, of every block.
func packBlocks(dst, file []byte, bytes, from, to int) {
	le := binary.LittleEndian
	n := to - from
	for i := range len(dst) / n {
		out, in := dst[i*n:][:n], file[i*bytes+from:][:n]
		if n == 2 {
			le.PutUint16(out, le.Uint16(in))
			continue
		}
		if n == 4 {
			le.PutUint32(out, le.Uint32(in))
			continue
		}
		for ; len(in) >= 8; out, in = out[8:], in[8:] {
			le.PutUint64(out, le.Uint64(in))
		}
	}
}

// Bytes are packed eight at a time.
const (
	low4 = 0x0f0f0f0f0f0f0f0f
	low2 = 0x03030303
	low1 = 0x01010101
)

// packPairs writes every unit's nibbles in the order of Q4_0. A superblock takes that many bytes in the file. Its units
// 2k and 2k+1 are the low and the high nibbles of 32 bytes, the first of which begin at byte from.
func packPairs(dst, file []byte, bytes, from int) {
	le := binary.LittleEndian
	for ; len(file) > 0; dst, file = dst[128:], file[bytes:] {
		for k := range 4 {
			in, out := file[from+32*k:][:32], dst[32*k:][:32]
			for i := 0; i < 16; i += 8 {
				a, b := le.Uint64(in[i:]), le.Uint64(in[i+16:])
				le.PutUint64(out[i:], a&low4|b&low4<<4)
				le.PutUint64(out[i+16:], a>>4&low4|b&^low4)
			}
		}
	}
}

// packHighBits writes a word for every unit. Bit v of its bytes is the highest bit of elements 4v…. A superblock takes
// that many bytes in the file. Its unit j is bit j of each of the 32 bytes that begin at byte from.
func packHighBits(dst, file []byte, bytes, from int) {
	le := binary.LittleEndian
	for ; len(file) > 0; dst, file = dst[32:], file[bytes:] {
		for j := range 8 {
			bits := uint32(0)
			for v := range 8 {
				bits |= le.Uint32(file[from+4*v:]) >> j & low1 << v
			}
			le.PutUint32(dst[4*j:], bits)
		}
	}
}

// packQ6_K writes every unit's low nibbles as Q4_0 has them. In the file, unit j is the low or the high nibbles of 32
// bytes.
func packQ6_K(dst, file []byte) {
	le := binary.LittleEndian
	for ; len(file) > 0; dst, file = dst[128:], file[210:] {
		for j := range 8 {
			half, quarter := j/4, j%4
			in, out, shift := file[64*half+32*(quarter&1):][:32], dst[16*j:][:16], quarter>>1*4
			for i := 0; i < 16; i += 8 {
				le.PutUint64(out[i:], le.Uint64(in[i:])>>shift&low4|le.Uint64(in[i+16:])>>shift&low4<<4)
			}
		}
	}
}

// packBitPairs writes two words for every unit: bit pair f of byte b of word h is two bits of element 4(2f+h)+b. A
// superblock takes that many bytes in the file. Its units 4k… are the bit pairs of 32 bytes, the first of which begin
// at byte from.
func packBitPairs(dst, file []byte, bytes, from int) {
	le := binary.LittleEndian
	for ; len(file) > 0; dst, file = dst[64:], file[bytes:] {
		for j := range 8 {
			in, out, shift := file[from+32*(j/4):][:32], dst[8*j:][:8], 2*(j%4)
			for h := range 2 {
				bits := uint32(0)
				for f := range 4 {
					bits |= le.Uint32(in[4*(2*f+h):]) >> shift & low2 << (2 * f)
				}
				le.PutUint32(out[4*h:], bits)
			}
		}
	}
}

// Matrix takes src to the device in the layout of weights.glsl.
func (d *Device) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	if d.gpu.Counts() {
		src.Data = nil
	} else if err := src.Check(); err != nil {
		return nil, err
	}
	d.quantised = d.quantised || src.Type.Quantised()
	m, rows, regions, fill, err := laidOut(src, use)
	if err != nil {
		return nil, err
	}
	if err := d.take(m, rows, regions, func(r region, dst []byte, first int) { fill(src, r, dst, first) }); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", src.Name, err)
	}
	return &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: m}, nil
}

// laidOut returns the layout of src, its rows in memory and their regions, and what fills them.
func laidOut(src compute.Source, use compute.Use) (m *matrix, rows int, regions []region, fill func(src compute.Source, r region, dst []byte, first int), err error) {
	m = &matrix{head: use == compute.Head || use == compute.Lookup}
	rows, fill = src.Rows, fillRows
	switch {
	case use == compute.Columns && src.Stack > 0: // experts are computed whole
		m.units = ceil(src.Cols, unitElems(src.Type))
		regions = rowRegions(src.Type, m.units)
	case use == compute.Columns && !src.Type.Quantised():
		m.layout, m.units, rows = neurons, ceil(src.Rows, unitElems(src.Type)), src.Cols
		regions, fill = rowRegions(src.Type, m.units), fillColumns
	case use == compute.Columns && src.Order != nil:
		err = fmt.Errorf("tensor %q: columns of %s share scales and cannot be reordered", src.Name, src.Type)
	case use == compute.Columns && src.Type.Traits().Columns:
		m.layout, m.units, rows = groups, ceil(src.Rows, quant.QK), src.Cols
		regions, fill = groupRegions(src, m.units), fillGroups
	default:
		if use == compute.Rows {
			m.layout = neurons
		}
		m.units = ceil(src.Cols, unitElems(src.Type))
		regions = rowRegions(src.Type, m.units)
	}
	return m, rows, regions, fill, err
}

// regionAlign is the alignment of a part's regions.
const regionAlign = 16

// take allocates the parts of m, of rows in all, and uploads them.
func (d *Device) take(m *matrix, rows int, regions []region, fill func(r region, dst []byte, first int)) error {
	step, size := 1, int64(0) // rows that stay together, and their bytes
	for _, r := range regions {
		step = max(step, r.rows)
	}
	for _, r := range regions {
		size += int64(step / r.rows * r.size)
	}
	most := (min(d.maxBinding, d.gpu.MaxMemory) - int64(len(regions)*regionAlign)) / size
	if most < 1 {
		return fmt.Errorf("a row takes more than the %d bytes that the GPU can bind at once", d.maxBinding)
	}
	for first := 0; first < rows; {
		n := int(min(most*int64(step), int64(rows-first)))
		p, end := placed(regions, n)
		p.first = first
		var err error
		if p.memory, err = d.alloc(end); err != nil {
			return err
		}
		for i, r := range regions {
			bytes := int64(n / r.rows * r.size)
			if err := d.upload(p.memory.Slice(p.regions[i], bytes), int64(r.size), func(dst []byte, item int) { fill(r, dst, first/r.rows+item) }); err != nil {
				return err
			}
		}
		m.parts = append(m.parts, p)
		first += n
	}
	return nil
}

// placed returns a part of n rows with its regions one after the other, and their end.
func placed(regions []region, n int) (p part, end int64) {
	p.rows = n
	for i, r := range regions {
		p.regions[i] = end
		end = driver.Align(end+int64(n/r.rows*r.size), regionAlign)
	}
	return p, end
}

// inParallel calls f for ranges of n items on all processors.
func inParallel(n int, f func(from, to int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	var wg fault.Group
	for w := range workers {
		wg.Go(func() { f(n*w/workers, n*(w+1)/workers) })
	}
	wg.Wait()
}

// fillRows writes items first… of a region: one for each row, in the order asked for.
func fillRows(src compute.Source, r region, dst []byte, first int) {
	fileRow := src.Type.RowBytes(src.Cols)
	inParallel(len(dst)/r.size, func(from, to int) {
		for i := from; i < to; i++ {
			row := first + i
			if src.Order != nil {
				row = int(src.Order[row])
			}
			r.pack(dst[i*r.size:][:r.size], src.Data[row*fileRow:][:fileRow])
		}
	})
}

// fillColumns writes columns first… of floats, in the order asked for, as rows.
func fillColumns(src compute.Source, r region, dst []byte, first int) {
	size := src.Type.RowBytes(1)
	fileRow := src.Cols * size
	inParallel(len(dst)/r.size, func(from, to int) {
		for i := from; i < to; i++ {
			clear(dst[i*r.size+src.Rows*size : (i+1)*r.size])
		}
		for row := range src.Rows { // whole cache lines of every row
			for i := from; i < to; i++ {
				col := first + i
				if src.Order != nil {
					col = int(src.Order[col])
				}
				copy(dst[i*r.size+row*size:][:size], src.Data[row*fileRow+col*size:])
			}
		}
	})
}

// groupRegions are quants and scales of columns in groups of 32: a group's neurons as rows of units of outputs, and a
// half for every output of a group.
func groupRegions(src compute.Source, units int) []region {
	block := src.Type.BlockBytes()
	quants := func(dst, file []byte) { // file is one block of every row
		size := len(dst) / quant.QK // bytes of a neuron
		clear(dst)
		for row := range src.Rows {
			in := file[row*src.Type.RowBytes(src.Cols):][2:block]
			unit, at := row/quant.QK, row%quant.QK
			for n := range quant.QK {
				if src.Type == quant.Q8_0 {
					dst[n*size+row] = in[n]
					continue
				}
				q := in[n%16] >> (n / 16 * 4) & 15
				dst[n*size+16*unit+at%16] |= q << (at / 16 * 4)
			}
		}
	}
	scales := func(dst, file []byte) {
		clear(dst)
		for row := range src.Rows {
			binary.LittleEndian.PutUint16(dst[2*row:], binary.LittleEndian.Uint16(file[row*src.Type.RowBytes(src.Cols):]))
		}
	}
	return []region{{quant.QK, units * quant.QK * (block - 2), quants}, {quant.QK, units * quant.QK * 2, scales}}
}

// fillGroups writes groups first… of a region.
func fillGroups(src compute.Source, r region, dst []byte, first int) {
	inParallel(len(dst)/r.size, func(from, to int) {
		for i := from; i < to; i++ {
			r.pack(dst[i*r.size:][:r.size], src.Data[(first+i)*src.Type.BlockBytes():])
		}
	})
}
