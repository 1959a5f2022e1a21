package cpu

import (
	"fmt"
	"sort"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// matrix is a weight as the device holds it.
type matrix struct {
	data     []byte // rows of rowBytes, in the arena or in the mapped file; or groups. Of a weight on disk: nil
	rowBytes int
	k        *kernel.Kernels // rows of rowBytes, in the arena or in the mapped file; or groups. nil for a weight on disk
	packed   bool            // in the kernels' layout; otherwise as in the file
	layout   layout
	ofTokens bool    // it is multiplied with all of a step's tokens
	disk     *part   // the weight's part on disk, if it stays there; else nil
	slots    *bundle // its rows are slots of this bundle's neurons; else nil
}

// layout says what the rows in memory are.
type layout int

// The layouts.
const (
	plain   layout = iota // the matrix's rows
	neurons               // neurons: rows loaded for Rows, or columns loaded for Columns; stacked matrices follow each other
	groups                // groups of 32 columns, which share scales: kernel.PackGroup; of stacked matrices, too
)

func mem(m *compute.Matrix) *matrix { return m.Mem.(*matrix) }

// packRows is the number of rows that a worker packs at a time at load.
const packRows = 64

// Matrix repacks src into the arena, or leaves it in the mapped file if it is pinned.
func (d *Device) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	if err := src.Check(); err != nil {
		return nil, err
	}
	m := &matrix{rowBytes: kernel.RowBytes(src.Type, src.Cols), packed: true, k: d.k}
	m.ofTokens = use == compute.Dense || use == compute.Precise
	if (use == compute.Precise || use == compute.Head || use == compute.Lookup) && src.Type == quant.F16 {
		m.k = d.k.Exact()
	}
	out := &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: m}
	if use == compute.Dense && !src.Pinned {
		out.Type = d.k.RoundsTo(src.Type)
	}
	if use == compute.Rows {
		m.layout = neurons
	}
	var p packing
	switch {
	case src.Pinned && src.Order == nil && src.Disk == nil:
		m.data, m.rowBytes, m.packed = src.Data, src.Type.RowBytes(src.Cols), !src.Type.Quantised()
	case use == compute.Columns && !src.Type.Quantised():
		p = transposing{m}
		m.layout, m.rowBytes = neurons, perColumn(&src)*src.Type.RowBytes(1)
	case use == compute.Columns && src.Type.Traits().Columns && src.Order == nil:
		p = grouping{m}
		m.layout, m.rowBytes = groups, kernel.GroupBytes(src.Type, perColumn(&src))
	case use == compute.Columns && src.Order != nil:
		return nil, fmt.Errorf("tensor %q: columns of %s share scales and cannot be reordered", src.Name, src.Type)
	case out.Type != src.Type:
		p = rowPacking{m, d.k.RoundRow}
	default:
		p = rowPacking{m, d.k.PackRow}
	}
	if src.Disk != nil {
		m.disk = newPart(src, p)
		return out, nil
	}
	if p != nil {
		var err error
		if m.data, err = d.mem.bytes(p.bytes(&src)); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", src.Name, err)
		}
		d.batch.Run(p.chunks(&src), func(chunk, _ int) { p.pack(m.data, &src, chunk) })
	}
	if use != compute.Lookup && (m.layout == plain || m.packed && m.layout == neurons && use == compute.Rows) {
		d.tuner.add(out)
	}
	return out, nil
}

// packing brings a source's weights into a matrix's form.
type packing interface {
	// bytes returns what they take in that form.
	bytes(src *compute.Source) int
	// chunks returns the number of chunks that they are packed in, which may be packed at the same time.
	chunks(src *compute.Source) int
	// pack writes a chunk's part of dst. [bytes]
	pack(dst []byte, src *compute.Source, chunk int)
}

// perColumn returns the rows of each of a source's stacked matrices: the number of elements of a column.
func perColumn(src *compute.Source) int {
	_, rows := src.Stacked()
	return rows
}

// rowPacking packs row by row, in the order asked for.
type rowPacking struct {
	m   *matrix
	row func(t quant.Type, dst, src []byte, cols int)
}

func (p rowPacking) bytes(src *compute.Source) int  { return src.Rows * p.m.rowBytes }
func (p rowPacking) chunks(src *compute.Source) int { return (src.Rows + packRows - 1) / packRows }

func (p rowPacking) pack(dst []byte, src *compute.Source, chunk int) {
	fileRow, rowBytes := src.Type.RowBytes(src.Cols), p.m.rowBytes
	for r := chunk * packRows; r < min(src.Rows, (chunk+1)*packRows); r++ {
		from := r
		if src.Order != nil {
			from = int(src.Order[r])
		}
		p.row(src.Type, dst[r*rowBytes:][:rowBytes], src.Data[from*fileRow:][:fileRow], src.Cols)
	}
}

// transposing makes rows of columns, in the order asked for.
type transposing struct{ m *matrix }

func (p transposing) bytes(src *compute.Source) int {
	stack, _ := src.Stacked()
	return stack * src.Cols * p.m.rowBytes
}

// columnChunks returns the chunks of one of a source's stacked matrices.
func columnChunks(src *compute.Source) int { return (src.Cols + packRows - 1) / packRows }

func (p transposing) chunks(src *compute.Source) int {
	stack, _ := src.Stacked()
	return stack * columnChunks(src)
}

func (p transposing) pack(dst []byte, src *compute.Source, chunk int) {
	_, rows := src.Stacked()
	size, rowBytes := src.Type.RowBytes(1), p.m.rowBytes
	fileRow := src.Cols * size
	e, chunk := chunk/columnChunks(src), chunk%columnChunks(src)
	from, to := src.Data[e*rows*fileRow:][:rows*fileRow], dst[e*src.Cols*rowBytes:][:src.Cols*rowBytes]
	end := min(src.Cols, (chunk+1)*packRows)
	for r := range rows { // a chunk reads whole cache lines of every row
		for n := chunk * packRows; n < end; n++ {
			col := n
			if src.Order != nil {
				col = int(src.Order[n])
			}
			copy(to[n*rowBytes+r*size:][:size], from[r*fileRow+col*size:])
		}
	}
}

// grouping makes groups of columns.
type grouping struct{ m *matrix }

func (p grouping) bytes(src *compute.Source) int { return p.chunks(src) * p.m.rowBytes }

func (p grouping) chunks(src *compute.Source) int {
	stack, _ := src.Stacked()
	return stack * (src.Cols / kernel.GroupNeurons)
}

func (p grouping) pack(dst []byte, src *compute.Source, g int) {
	_, rows := src.Stacked()
	fileRow, count := src.Type.RowBytes(src.Cols), src.Cols/kernel.GroupNeurons
	from := src.Data[g/count*rows*fileRow:][:rows*fileRow]
	to := dst[g*p.m.rowBytes:][:p.m.rowBytes]
	clear(to)
	for s := range kernel.Super(rows) {
		kernel.PackGroup(src.Type, to, from, rows, fileRow, g%count, s)
	}
}

// packedRow returns row r of w in the kernels' layout. It uses scratch if w is stored in another.
func (d *Device) packedRow(w *compute.Matrix, r int, scratch *[]byte) []byte {
	m := mem(w)
	row := m.data[r*m.rowBytes:][:m.rowBytes]
	if m.packed {
		return row
	}
	buf := grown(scratch, kernel.RowBytes(w.Type, w.Cols))
	d.k.PackRow(w.Type, buf, row, w.Cols)
	return buf
}

// unpackRow decodes row r of w to dst [w.Cols].
func unpackRow(w *compute.Matrix, dst []float32, r int) {
	m := mem(w)
	row := m.data[r*m.rowBytes:][:m.rowBytes]
	if m.packed {
		kernel.UnpackRow(w.Type, dst, row)
		return
	}
	quant.Decode(w.Type, dst, row)
}

func decode(t quant.Type, dst []float32, src []byte) { quant.Decode(t, dst, src) }

// grown returns the first n elements of *s, which grows as needed and is kept for the next step.
func grown[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n+n/4)
		inHugePages(*s)
	}
	*s = (*s)[:cap(*s)]
	return (*s)[:n]
}

// inHugePages asks for huge pages where s, which is new, has room for some.
func inHugePages[T any](s []T) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
	if len(b) < 2*pageAlign {
		return
	}
	b = b[int(-uintptr(unsafe.Pointer(&b[0]))%pageAlign):]
	adviseHuge(b[:len(b)/pageAlign*pageAlign])
}

// scratch is memory that verbs use while they run. Workers have their own.
type scratch struct {
	acts    [kernel.Forms][]byte // activations of the verb in progress, by form
	workers []workerScratch
}

type workerScratch struct {
	packed        []byte    // rows packed on the fly
	floats        []float32 // a row, or a chunk's queries and partial sums
	sums          []float32 // sums of a token's chunks
	sum           kernel.RowSum
	groups        kernel.GroupSum
	rows          [kernel.RowsHeld][]byte // down rows packed on the fly
	turn          int                     // the last of rows in use
	list          []int32                 // neurons
	decoded       []float32               // a page of quantised keys and values
	gathered      []byte                  // pages of keys that are apart in the cache
	gatheredPages []int32                 // their numbers
	panel         []byte                  // a prompt's down columns, see panel
	block         [][superblock]float32   // neurons on their way into it
	_             [64]byte                // workers write side by side
}

func (d *Device) worker(i int) *workerScratch { return &d.scratch.workers[i] }

// operand is a step's activations as products take them, in every form that was asked for.
type operand struct {
	at     [kernel.Forms]unsafe.Pointer // by kernel.Form
	stride [kernel.Forms]int            // bytes from row to row
}

// form adds x in the form of w, unless it is there.
func (o *operand) form(d *Device, x compute.Tensor, w *compute.Matrix) {
	o.add(d, x, mem(w).k.Form(w.Type))
}

// add adds x in form f, unless it is there.
func (o *operand) add(d *Device, x compute.Tensor, f kernel.Form) {
	if o.at[f] != nil {
		return
	}
	stride := f.ActRow(x.Cols)
	o.stride[f] = stride
	if f == kernel.Floats {
		o.at[f] = unsafe.Pointer(unsafe.SliceData(floats(x)))
		return
	}
	acts := grown(&d.scratch.acts[f], x.Rows*stride+cacheLine)
	acts = acts[aligned(acts):][:x.Rows*stride]
	d.rows.conversion = conversion{x, f, acts}
	d.rows.run(&d.rows.conversion, x.Rows, x.Cols)
	o.at[f] = unsafe.Pointer(unsafe.SliceData(acts))
}

// addPrompt adds x in form f of prompts for the rows from row single on, unless it is there.
func (o *operand) addPrompt(d *Device, x compute.Tensor, single int, f kernel.Form) {
	if !f.Tiled() {
		o.add(d, x, f)
		return
	}
	if o.at[f] != nil {
		return
	}
	o.stride[f] = f.ActRow(x.Cols)
	o.at[f] = d.tiling.all(f, floats(x)[single*x.Cols:], x.Cols)
}

// formOfPrompt adds x for multiplyOfPrompt with w. All rows of x belong to prompts.
func (o *operand) formOfPrompt(d *Device, x compute.Tensor, w *compute.Matrix) {
	if tiled(w) {
		o.addPrompt(d, x, 0, mem(w).k.PromptForm(w.Type))
	} else {
		o.form(d, x, w)
	}
}

// ofPrompt is the activations for w from row single on, in the form of prompts, and the distance of rows.
func (o *operand) ofPrompt(w *compute.Matrix, single int) (unsafe.Pointer, int) {
	f := mem(w).k.PromptForm(w.Type)
	if f.Tiled() {
		single = 0
	}
	return unsafe.Add(o.at[f], single*o.stride[f]), o.stride[f]
}

// tiled reports whether products of w with rows of prompts use tiles.
func tiled(w *compute.Matrix) bool {
	m := mem(w)
	return m.ofTokens && m.k.PromptForm(w.Type).Tiled()
}

// ofTiles returns the address of a tile of activations in w's form for prompts, and the bytes of a row of the tile.
func (o *operand) ofTiles(w *compute.Matrix, tile int) (unsafe.Pointer, int) {
	f := mem(w).k.PromptForm(w.Type)
	return unsafe.Add(o.at[f], tile*kernel.TileTokens*o.stride[f]), o.stride[f]
}

// tileRun is a run of activations' rows that are multiplied by the same weights. A tile has rows of one run only.
type tileRun struct {
	tile, tiles int // the first of its tiles, and their number
	first, rows int
}

// tiling makes tiles of activations.
type tiling struct {
	d       *Device
	chunkFn func(chunk, worker int)

	form   kernel.Form
	x      []float32
	cols   int
	runs   []tileRun
	source []int32 // the row of x for each row that runs count; nil: the row of that number
	whole  [1]tileRun
	dst    []byte
}

func (t *tiling) init(d *Device) {
	t.d = d
	t.chunkFn = t.chunk
}

// after returns the run of rows [first, first+rows). Its tiles follow those of r.
func (r tileRun) after(first, rows int) tileRun {
	return tileRun{r.tile + r.tiles, (rows + kernel.TileTokens - 1) / kernel.TileTokens, first, rows}
}

// all makes tiles of all rows of x, and returns their address.
func (t *tiling) all(f kernel.Form, x []float32, cols int) unsafe.Pointer {
	t.whole[0] = tileRun{}.after(0, len(x)/cols)
	return t.run(f, x, cols, t.whole[:], nil)
}

// run makes tiles of runs, and returns the first one's address.
func (t *tiling) run(f kernel.Form, x []float32, cols int, runs []tileRun, source []int32) unsafe.Pointer {
	last := runs[len(runs)-1]
	tiles := last.tile + last.tiles
	size := f.TiledBytes(cols, tiles*kernel.TileTokens)
	t.form, t.x, t.cols, t.runs, t.source = f, x, cols, runs, source
	t.dst = grown(&t.d.scratch.acts[f], size+cacheLine)
	t.dst = t.dst[aligned(t.dst):][:size]
	t.d.pool.Run(tiles, t.chunkFn)
	return unsafe.Pointer(unsafe.SliceData(t.dst))
}

// chunk makes the tile of that number.
func (t *tiling) chunk(tile, _ int) {
	r := &t.runs[sort.Search(len(t.runs), func(i int) bool { return t.runs[i].tile+t.runs[i].tiles > tile })]
	i := tile - r.tile
	var rows [kernel.TileTokens]int32
	for j := range min(len(rows), r.rows-i*len(rows)) {
		rows[j] = int32(r.first + i*len(rows) + j)
		if t.source != nil {
			rows[j] = t.source[rows[j]]
		}
	}
	t.d.k.Tile(t.form, t.dst[t.form.TiledBytes(t.cols, r.tile*kernel.TileTokens):], t.cols, r.rows, i, t.x, &rows)
}

// of returns the address of row token of the activations in the form for w, and the distance to the next row.
func (o *operand) of(w *compute.Matrix, token int) (unsafe.Pointer, int) {
	f := mem(w).k.Form(w.Type)
	return unsafe.Add(o.at[f], token*o.stride[f]), o.stride[f]
}
