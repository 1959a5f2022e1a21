package convert

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// chunkElems is the number of elements that one worker holds at a time (in three forms: as stored, as float32, as
// written).
const chunkElems = 1 << 18

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
	switch t.as {
	case asFloats:
		return quant.F32
	case asHalves:
		return quant.F16
	case asWhole:
		return quant.I32
	case asTokens:
		return quant.I64
	}
	switch {
	case t.blocks(): // another type would be larger or less exact
		typ, _ := t.stack[0].Type()
		return typ
	case t.codes():
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
	if err := t.measure(rowLen, rows); err != nil {
		return err
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
	if t.blocks() {
		l.out = resize(l.out, typ.RowBytes(rowLen)*(to-from))
		return l.raws(t, l.out, rowLen, typ.RowBytes(rowLen), from, to)
	}
	if t.codes() {
		l.out = resize(l.out, typ.RowBytes(rowLen)*(to-from))
		return l.repackSmall(t, rowLen, from, to)
	}
	l.out = resize(l.out, typ.RowBytes(rowLen)*(to-from))
	if err := l.read(t, t.changes, rowLen, from, to); err != nil {
		return err
	}
	if whole := t.as == asWhole || t.as == asTokens; !whole {
		if err := t.check(l.floats, typ); err != nil {
			return err
		}
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

// read fills l.floats with rows [from, to) of t after changes.
func (l *lane) read(t *tensor, changes []change, rowLen, from, to int) error {
	l.floats = resize(l.floats, (to-from)*rowLen)
	if err := l.decode(t, rowLen, from, to); err != nil {
		return err
	}
	for _, c := range changes {
		c.apply(l.floats, rowLen, from)
	}
	return nil
}

// measure lets t's changes see the elements on which they depend.
func (t *tensor) measure(rowLen, rows int) error {
	for i, c := range t.changes {
		m, ok := c.(measured)
		if !ok {
			continue
		}
		err := m.measure(rowLen, func(see func([]float32)) error {
			var l lane
			step := max(1, chunkElems/rowLen)
			for from := 0; from < rows; from += step {
				if err := l.read(t, t.changes[:i], rowLen, from, min(rows, from+step)); err != nil {
					return err
				}
				see(l.floats)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// decode fills l.floats with rows [from, to) of t.
func (l *lane) decode(t *tensor, rowLen, from, to int) error {
	switch {
	case t.mapped != nil:
		bytes := t.mapped.Type.RowBytes(rowLen)
		quant.Decode(t.mapped.Type, l.floats, t.mapped.Data[from*bytes:to*bytes])
		return nil
	case len(t.stack) == 0:
		copy(l.floats, t.values[from*rowLen:])
		return nil
	case t.columns != nil:
		return l.columns(t, rowLen, from, to)
	}
	typ, _ := t.stack[0].Type()
	rowBytes := typ.RowBytes(rowLen)
	l.raw = resize(l.raw, rowBytes*(to-from))
	if err := l.raws(t, l.raw, rowLen, rowBytes, from, to); err != nil {
		return err
	}
	quant.Decode(typ, l.floats, l.raw)
	return nil
}

// raws fills b with rows [from, to) of t as they are stored; consecutive source rows are read at once.
func (l *lane) raws(t *tensor, b []byte, rowLen, rowBytes, from, to int) error {
	source := func(r int) int {
		if t.row == nil {
			return r
		}
		return t.row(r)
	}
	for r := from; r < to; {
		first, n := source(r), 1
		p, begin, end := t.stack.at(first, rowLen)
		for r+n < to && source(r+n) == first+n && first+n < end {
			n++
		}
		rows := b[(r-from)*rowBytes : (r-from+n)*rowBytes]
		r += n
		if p == nil {
			clear(rows)
			continue
		}
		if err := p.ReadAt(rows, int64(first-begin)*int64(rowBytes)); err != nil {
			return err
		}
	}
	return nil
}

// columns decodes columns [from, to) of the source into rows of l.floats.
func (l *lane) columns(t *tensor, rowLen, from, to int) error {
	p := t.stack[0]
	typ, _ := p.Type()
	size, width, step := typ.RowBytes(1), t.shape[1], t.columns.step
	row := p.Shape[len(p.Shape)-1]             // elements of a row of the source
	rows := p.end / row / product(t.shape[2:]) // of a matrix of the source
	part := make([]float32, min(to-from, width)*step)
	for at := from; at < to; {
		matrix, first := at/width, at%width
		n := min(to-at, width-first)
		wide := (n-1)*step + 1
		l.raw = resize(l.raw, wide*size)
		for r := range rowLen {
			if err := p.ReadAt(l.raw, int64((matrix*rows+r)*row+first*step+t.columns.first)*int64(size)); err != nil {
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
			if len(t.stack) > 0 {
				from := t.stack[0]
				name, at = from.Name, fmt.Sprintf("%s: offset %d: ", from.Path(), from.Offset)
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
