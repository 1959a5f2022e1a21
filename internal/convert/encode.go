package convert

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// chunkElems is the number of elements that one worker holds at a time (in three forms: as stored, as float32, as
// written).
const chunkElems = 1 << 18

// unitEpsilon is the least length by which rows are divided, as torch's normalize has it.
const unitEpsilon = 1e-12

// maxHalf is the first magnitude that rounds to infinity in F16.
const maxHalf = 65520

// sources chooses every tensor's type and prepares its encoding.
func sources(tensors []*tensor, keys []gguf.KV, o Options) []gguf.Source {
	e := &encoder{lanes: make([]lane, runtime.GOMAXPROCS(0))}
	var names []string
	for _, t := range tensors {
		names = append(names, t.name)
	}
	m := newMixer(o.Output, keys, names)
	out := make([]gguf.Source, len(tensors))
	var others narrowings
	for _, i := range inLayerOrder(names) {
		t := tensors[i]
		typ := t.storeAs(o, m, &others)
		shape := t.shape
		if t.stated != nil {
			shape = t.stated
		}
		out[i] = gguf.Source{Name: t.name, Type: typ, Shape: shape, Write: func(w io.Writer) error { return e.write(w, t, typ) }}
	}
	others.tell(o.Notes)
	return out
}

// storeAs returns the type of t in the output.
func (t *tensor) storeAs(o Options, m *mixer, others *narrowings) quant.Type {
	switch {
	case t.tokens:
		return quant.I64
	case t.whole:
		return quant.I32
	case t.plain:
		return quant.F32
	case t.half:
		return quant.F16
	case t.blocks(): // another type would be larger or less exact
		typ, _ := t.from.Type()
		return typ
	case t.small != nil:
		return quant.NVFP4
	case !o.Output.base.Quantised():
		return o.Output.base
	case kept(t.name, t.shape):
		return quant.F16
	}
	return narrowed(t.name, t.shape, m.choose(t.name, t.shape), others)
}

// encoder turns stored rows into output rows; its lanes work side by side and keep their buffers.
type encoder struct{ lanes []lane }

// lane is one worker's buffers.
type lane struct {
	raw    []byte    // elements as stored
	floats []float32 // the same, decoded
	out    []byte    // the same, encoded
	done   chan error
}

// write streams t as typ to w. Chunks of rows take the lanes in turn and are written in order, while later ones are in
// work.
func (e *encoder) write(w io.Writer, t *tensor, typ quant.Type) error {
	rowLen, rows := t.shape[0], 1
	for _, d := range t.shape[1:] {
		rows *= d
	}
	if t.row != nil && len(t.shape) == 1 || t.single {
		rowLen, rows = 1, rowLen*rows
	}
	if t.ternary {
		if err := t.average(); err != nil {
			return err
		}
	}
	if t.unitCols {
		if err := t.measure(); err != nil {
			return err
		}
	}
	var working sync.WaitGroup
	defer working.Wait() // lanes read sources that the caller closes
	step := max(1, chunkElems/rowLen)
	chunks := (rows + step - 1) / step
	for i := range chunks + len(e.lanes) {
		l := &e.lanes[i%len(e.lanes)]
		if i >= len(e.lanes) && i-len(e.lanes) < chunks {
			if err := <-l.done; err != nil {
				return err
			}
			if _, err := w.Write(l.out); err != nil {
				return err
			}
		}
		if i < chunks {
			from, to := i*step, min((i+1)*step, rows)
			l.done = make(chan error, 1)
			working.Go(func() { l.done <- fault.Guard(func() error { return l.encode(t, typ, rowLen, from, to) }) })
		}
	}
	return nil
}

// encode fills l.out with rows [from, to) of t.
func (l *lane) encode(t *tensor, typ quant.Type, rowLen, from, to int) error {
	n := (to - from) * rowLen
	if t.blocks() {
		l.out = resize(l.out, typ.RowBytes(rowLen)*(to-from))
		return l.raws(t, l.out, typ.RowBytes(rowLen), from, to)
	}
	if t.small != nil {
		l.out = resize(l.out, typ.RowBytes(rowLen)*(to-from))
		return l.repackSmall(t, rowLen, from, to)
	}
	l.floats = resize(l.floats, n)
	l.out = resize(l.out, typ.RowBytes(rowLen)*(to-from))
	switch {
	case t.mapped != nil:
		bytes := t.mapped.Type.RowBytes(rowLen)
		quant.Decode(t.mapped.Type, l.floats, t.mapped.Data[from*bytes:to*bytes])
		t.multiply(l.floats, rowLen, from)
	case t.from == nil:
		copy(l.floats, t.values[from*rowLen:])
	default:
		if err := l.read(t, rowLen, from, to); err != nil {
			return err
		}
	}
	if err := t.check(l.floats, typ); err != nil && !t.whole {
		return err
	}
	if t.importance == nil {
		quant.Encode(typ, l.out, l.floats)
		return nil
	}
	rows, bytes := matrixRows(t.shape), typ.RowBytes(rowLen)
	for r := from; r < to; r++ {
		quant.EncodeWeighted(typ, l.out[(r-from)*bytes:][:bytes], l.floats[(r-from)*rowLen:][:rowLen], t.importance[r/rows*rowLen:][:rowLen])
	}
	return nil
}

// multiply multiplies the elements of rows from from on by their matrices' factors.
func (t *tensor) multiply(x []float32, rowLen, from int) {
	if t.factors == nil {
		return
	}
	rows := matrixRows(t.shape)
	for i := range x {
		x[i] *= t.factors[(from+i/rowLen)/rows]
	}
}

// matrixRows returns the rows of each matrix of a tensor, which may have one matrix for each expert.
func matrixRows(shape []int) int {
	if len(shape) < 2 {
		return 1
	}
	return shape[1]
}

// read decodes rows [from, to) of t into l.floats.
func (l *lane) read(t *tensor, rowLen, from, to int) error {
	typ, _ := t.from.Type()
	if t.column {
		return l.columns(t, rowLen, from, to)
	}
	rowBytes := typ.RowBytes(rowLen)
	l.raw = resize(l.raw, rowBytes*(to-from))
	if err := l.raws(t, l.raw, rowBytes, from, to); err != nil {
		return err
	}
	quant.Decode(typ, l.floats, l.raw)
	return l.change(t, rowLen, from)
}

// raws fills b with rows [from, to) of t as they are stored; consecutive source rows are read at once.
func (l *lane) raws(t *tensor, b []byte, rowBytes, from, to int) error {
	source := func(r int) int {
		if t.row == nil {
			return r
		}
		return t.row(r)
	}
	for r := from; r < to; {
		first, n := source(r), 1
		part, end := t.part(first)
		for r+n < to && source(r+n) == first+n && first+n < end {
			n++
		}
		rows := b[(r-from)*rowBytes : (r-from+n)*rowBytes]
		r += n
		if part == nil {
			clear(rows)
			continue
		}
		if err := part.ReadAt(rows, int64(first-t.begin(first))*int64(rowBytes)); err != nil {
			return err
		}
	}
	return nil
}

// change applies t's changes to the elements of rows from from on in l.floats.
func (l *lane) change(t *tensor, rowLen, from int) error {
	if t.order != nil {
		l.reorder(t, rowLen)
	}
	if t.unit {
		for row := range slices.Chunk(l.floats, rowLen) {
			var square float64
			for _, v := range row {
				square += float64(v) * float64(v)
			}
			for i := range row {
				row[i] = float32(float64(row[i]) / max(math.Sqrt(square), unitEpsilon))
			}
		}
	}
	if t.lengths != nil {
		for i, v := range l.floats {
			l.floats[i] = float32(float64(v) / t.lengths[i%rowLen])
		}
	}
	if t.mean > 0 {
		for i, v := range l.floats {
			l.floats[i] = float32(max(-1, min(1, math.RoundToEven(float64(v)/t.mean))) * t.mean)
		}
	}
	if t.multiplied != nil {
		for i := range l.floats {
			l.floats[i] *= float32(t.multiplier(from + i/rowLen))
		}
	}
	if t.exp != 0 {
		for i, e := range l.floats {
			l.floats[i] = t.exp * float32(math.Exp(float64(e)))
		}
	}
	if t.by != nil {
		return l.multiplyBy(t.by)
	}
	if t.plus != 0 {
		for i := range l.floats {
			l.floats[i] += t.plus
		}
	}
	return nil
}

// columnEpsilon is added to columns' lengths, as in the published code.
const columnEpsilon = 1e-7

// measure finds the lengths of t's columns.
func (t *tensor) measure() error {
	cols, rows := t.shape[0], t.shape[1]
	l, square := lane{}, make([]float64, cols)
	for from := 0; from < rows; {
		to := min(rows, from+max(1, chunkElems/cols))
		l.floats = resize(l.floats, (to-from)*cols)
		if err := l.read(t, cols, from, to); err != nil {
			return err
		}
		for i, v := range l.floats {
			square[i%cols] += float64(v) * float64(v)
		}
		from = to
	}
	for i, v := range square {
		square[i] = math.Sqrt(v) + columnEpsilon
	}
	t.lengths = square
	return nil
}

// leastMean is the least that the mean magnitude of a matrix of three values counts as, as published code has it.
const leastMean = 1e-5

// average finds the mean of the magnitudes of t's elements.
func (t *tensor) average() error {
	cols, rows := t.shape[0], t.shape[1]
	t.mean = 0 // read leaves elements as they are
	l, sum := lane{}, 0.0
	for from := 0; from < rows; {
		to := min(rows, from+max(1, chunkElems/cols))
		l.floats = resize(l.floats, (to-from)*cols)
		if err := l.read(t, cols, from, to); err != nil {
			return err
		}
		for _, v := range l.floats {
			sum += math.Abs(float64(v))
		}
		from = to
	}
	t.mean = max(leastMean, sum/float64(cols*rows))
	return nil
}

// multiplyBy multiplies a vector by another one.
func (l *lane) multiplyBy(by *checkpoint.Tensor) error {
	typ, ok := by.Type()
	if !ok {
		return fmt.Errorf("%s: offset %d: a vector of dtype %s is not supported", by.Path(), by.Offset, by.DType)
	}
	factors, raw := make([]float32, len(l.floats)), make([]byte, typ.RowBytes(len(l.floats)))
	if err := by.ReadAt(raw, 0); err != nil {
		return err
	}
	quant.Decode(typ, factors, raw)
	for i, f := range factors {
		l.floats[i] *= f
	}
	return nil
}

// multiplier returns the factor of row r. A vector is one row.
func (t *tensor) multiplier(r int) float64 {
	for _, m := range t.multiplied {
		if m.Rows == 0 || r < m.Rows {
			return m.By
		}
		r -= m.Rows
	}
	return 1
}

// reorder brings the elements of each row into the output's order.
func (l *lane) reorder(t *tensor, rowLen int) {
	stored := make([]float32, rowLen)
	for row := range slices.Chunk(l.floats, rowLen) {
		copy(stored, row)
		for i := range row {
			row[i] = stored[t.order(i)]
		}
	}
}

// part returns the tensor that holds source row r of t, and the first row after that tensor's. It returns nil for a row
// of zeros.
func (t *tensor) part(r int) (from *checkpoint.Tensor, end int) {
	if t.rows > 0 && r >= t.rows {
		return nil, math.MaxInt
	}
	if len(t.more) == 0 {
		rows := 1
		for _, d := range t.from.Shape[:min(len(t.from.Shape), max(1, len(t.from.Shape)-1))] {
			rows *= d
		}
		return t.from, rows
	}
	if t.ends != nil {
		i, _ := slices.BinarySearch(t.ends, r+1)
		if i > 0 {
			return t.more[i-1], t.ends[i]
		}
		return t.from, t.ends[0]
	}
	n := t.from.Shape[0]
	if i := r / n; i > 0 {
		return t.more[i-1], (i + 1) * n
	}
	return t.from, n
}

// begin returns the first row of the tensor that holds source row r of t.
func (t *tensor) begin(r int) int {
	if len(t.more) == 0 {
		return 0
	}
	if t.ends != nil {
		if i, _ := slices.BinarySearch(t.ends, r+1); i > 0 {
			return t.ends[i-1]
		}
		return 0
	}
	return r / t.from.Shape[0] * t.from.Shape[0]
}

// columns decodes columns [from, to) of the source into rows of l.floats.
func (l *lane) columns(t *tensor, rowLen, from, to int) error {
	typ, _ := t.from.Type()
	size, width, step := typ.RowBytes(1), t.shape[1], max(1, t.step)
	row := cmp.Or(t.wide, width*step) // elements of a row of the source
	part := make([]float32, min(to-from, width)*step)
	for at := from; at < to; {
		matrix, first := at/width, at%width
		n := min(to-at, width-first)
		wide := (n-1)*step + 1
		l.raw = resize(l.raw, wide*size)
		for r := range rowLen {
			if err := t.from.ReadAt(l.raw, int64((matrix*t.apart+r)*row+first*step+t.first)*int64(size)); err != nil {
				return err
			}
			quant.Decode(typ, part[:wide], l.raw)
			for i := range n {
				l.floats[(at-from+i)*rowLen+r] = part[i*step]
			}
		}
		at += n
	}
	return nil
}

// limit returns the first magnitude that typ cannot hold. Blocks hold their scale, the largest magnitude over a fixed
// step, in F16.
func limit(typ quant.Type) float64 {
	if reach := typ.Reach(); reach > 0 {
		return reach * maxHalf
	}
	if typ == quant.BF16 {
		return 0x1.ffp127
	}
	return math.Inf(1)
}

// check refuses weights that the output type cannot hold.
func (t *tensor) check(x []float32, typ quant.Type) error {
	limit := limit(typ)
	if quant.TopMagnitude(x) < math.Float32bits(float32(limit)) {
		return nil
	}
	for _, v := range x {
		if a := math.Abs(float64(v)); !(a < limit) {
			name, at := t.name, ""
			if t.from != nil {
				name, at = t.from.Name, fmt.Sprintf("%s: offset %d: ", t.from.Path(), t.from.Offset)
			}
			if math.IsNaN(a) || math.IsInf(a, 0) {
				return fmt.Errorf("%stensor %q holds %g; the model is damaged", at, name, v)
			}
			return fmt.Errorf("%stensor %q holds %g, beyond %s; choose %s", at, name, v, typ, wider(typ))
		}
	}
	return nil
}

// wider names the output types that hold values which typ cannot.
func wider(typ quant.Type) string {
	if typ == quant.BF16 {
		return "f32"
	}
	return "bf16 or f32"
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
