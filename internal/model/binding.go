package model

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// binder hands a file's tensors to a device, each exactly once: a missing, surplus
// or misshapen tensor is an error that names it. It keeps the first error.
type binder struct {
	ctx      context.Context // ends the binding between two tensors
	f        *gguf.File
	dev      compute.Device
	pinned   bool         // the mapping outlives the device: compute in place where possible
	tier     compute.Tier // the GPU that vectors go to, and matrices where gpu says so
	gpu      bool         // matrices go to that tier; if not, to RAM
	taken    map[string]bool
	original map[*gguf.Tensor]*gguf.Tensor // of tensors that have their factor, the file's
	room     []byte                        // of such a tensor
	adapters *adapters                     // nil: there are none
	prepared []int32                       // of the layer at hand, neuron i is prepared[i] of the model that adapters are for; nil: i is
	err      error
	done     int64
	total    int64
	progress func(done, total int64)
}

func newBinder(ctx context.Context, f *gguf.File, dev compute.Device, pinned bool, progress func(done, total int64)) *binder {
	b := &binder{ctx: ctx, f: f, dev: dev, pinned: pinned, taken: map[string]bool{}, original: map[*gguf.Tensor]*gguf.Tensor{}, progress: progress}
	for _, t := range f.Tensors {
		b.total += int64(len(t.Data))
	}
	return b
}

func (b *binder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: %w", b.f.Path, fmt.Errorf(format, args...))
	}
}

// has reports whether the file holds name.
func (b *binder) has(name string) bool { return b.f.Tensor(name) != nil }

// take claims a tensor and checks that its shape is cols (row length) by rows. What it returns has the factor that may
// lie beside it.
func (b *binder) take(name string, cols, rows int) *gguf.Tensor {
	if b.err == nil {
		b.err = b.ctx.Err()
	}
	if b.err != nil {
		return nil
	}
	t := b.f.Tensor(name)
	if t == nil {
		b.fail("tensor %q is missing: the file is incomplete, or not of the architecture that it names; download or convert it again", name)
		return nil
	}
	if b.taken[name] {
		b.fail("tensor %q is bound twice", name)
		return nil
	}
	b.taken[name] = true
	if t.Shape[0] != cols || t.Rows() != rows {
		b.fail("tensor %q has shape %v, not [%d %d]: the file is damaged, or its keys are those of another model; convert it again", name, t.Shape, cols, rows)
		return nil
	}
	return b.scaled(t)
}

// loaded counts a tensor's bytes as taken in and lets its pages go.
func (b *binder) loaded(t *gguf.Tensor, copied bool) {
	if of := b.original[t]; of != nil {
		delete(b.original, t)
		t, copied = of, true
	}
	if copied {
		b.f.DontNeed(t)
	}
	b.done += int64(len(t.Data))
	if b.progress != nil {
		b.progress(b.done, b.total)
	}
}

// matrix binds name as [rows, cols].
func (b *binder) matrix(name string, rows, cols int, use compute.Use) *compute.Matrix {
	return b.neurons(name, rows, cols, use, b.whole(rows), nil)
}

// lies says where what is bound next goes: with p's attention, or the head where p is the head's.
func (b *binder) lies(p compute.Place) { b.tier, b.gpu = p.Tier, p.Attention }

// whole returns how many of n rows go to the GPU.
func (b *binder) whole(n int) int {
	if b.gpu {
		return n
	}
	return 0
}

// neurons binds name as [rows, cols], its neurons in the order given, nil keeping the file's, the first hot of them for
// the GPU.
func (b *binder) neurons(name string, rows, cols int, use compute.Use, hot int, order []int32) *compute.Matrix {
	return b.bind(compute.Source{Name: name, Rows: rows, Cols: cols, Order: order, Split: compute.Split{Tier: b.tier, Bound: hot}}, use)
}

// bind binds the tensor that src names as src says, which lacks its type and data.
func (b *binder) bind(src compute.Source, use compute.Use) *compute.Matrix {
	name, hot := src.Name, src.Split.Bound
	t := b.take(name, src.Cols, src.Rows)
	if t == nil {
		return nil
	}
	src.Type, src.Data, src.Pinned = t.Type, t.Data, b.pinned && b.original[t] == nil
	m, err := b.dev.Matrix(src, use)
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	if src.Stack == 0 && (use == compute.Rows || use == compute.Columns) {
		b.adaptNeurons(name, use, hot, src.Order, m)
	} else {
		b.adapt(name, hot > 0, m)
	}
	b.loaded(t, !b.pinned)
	return m
}

// adapt binds what adapters have beside a tensor, whose consecutive rows w are: on the GPU if gpu, where those are.
func (b *binder) adapt(name string, gpu bool, w ...*compute.Matrix) {
	if b.adapters == nil || b.err != nil {
		return
	}
	b.err = b.adapters.bind(lying{b.dev, b.tier, gpu}, name, w)
}

// adaptNeurons is adapt where rows or columns are neurons, of which the first hot are on the GPU, in the order given.
func (b *binder) adaptNeurons(name string, use compute.Use, hot int, order []int32, w ...*compute.Matrix) {
	if b.adapters == nil || b.err != nil {
		return
	}
	to, m := lying{b.dev, b.tier, hot > 0}, w[0]
	if b.prepared != nil {
		order = composed(b.prepared, order)
	}
	of, transposed := strings.CutSuffix(name, "ffn_down_t.weight")
	switch {
	case transposed:
		b.err = b.adapters.bindColumns(to, of+"ffn_down.weight", m.Cols, m.Rows, m, hot, order)
	case use == compute.Columns:
		b.err = b.adapters.bindColumns(to, name, m.Rows, m.Cols, m, hot, order)
	default:
		b.err = b.adapters.bindRows(to, name, w, hot, order)
	}
}

// behind binds name, of rows by cols, without its first rows.
func (b *binder) behind(name string, first, rows, cols int, use compute.Use) *compute.Matrix {
	t := b.take(name, cols, rows)
	if t == nil {
		return nil
	}
	src := compute.Source{
		Name: name, Type: t.Type, Rows: rows - first, Cols: cols, Pinned: b.pinned && b.original[t] == nil,
		Split: compute.Split{Tier: b.tier, Bound: b.whole(rows - first)},
	}
	if t.Data != nil { // else the shape alone is known, and wanted
		src.Data = t.Data[first*t.Type.RowBytes(cols):]
	}
	m, err := b.dev.Matrix(src, use)
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	b.adapt(name, src.Split.Bound > 0, m)
	b.loaded(t, !b.pinned)
	return m
}

// slices binds consecutive row ranges of one tensor as matrices of their own (a fused q, k, v).
func (b *binder) slices(name string, cols int, use compute.Use, rows ...int) []*compute.Matrix {
	total := 0
	for _, r := range rows {
		total += r
	}
	return b.parts(name, cols, use, b.whole(total), nil, rows...)
}

// parts is slices of parts whose rows may be neurons: those of each part are in the order given, and the first hot of
// them, of parts that go whole all, are for the GPU.
func (b *binder) parts(name string, cols int, use compute.Use, hot int, order []int32, rows ...int) []*compute.Matrix {
	total := 0
	for _, r := range rows {
		total += r
	}
	t := b.take(name, cols, total)
	if t == nil {
		return nil
	}
	var out []*compute.Matrix
	at, rowBytes := 0, t.Type.RowBytes(cols)
	for _, r := range rows {
		var data []byte
		if t.Data != nil { // else the shape alone is known, and wanted
			data = t.Data[at : at+r*rowBytes]
		}
		m, err := b.dev.Matrix(compute.Source{
			Name: name, Type: t.Type, Rows: r, Cols: cols,
			Data: data, Pinned: b.pinned && b.original[t] == nil, Order: order, Split: compute.Split{Tier: b.tier, Bound: min(hot, r)},
		}, use)
		if err != nil {
			b.fail("%w", err)
			return nil
		}
		out = append(out, m)
		at += r * rowBytes
	}
	if use == compute.Rows {
		b.adaptNeurons(name, use, hot, order, out...)
	} else {
		b.adapt(name, hot > 0, out...)
	}
	b.loaded(t, !b.pinned)
	return out
}

// table reads a matrix to the host, whatever its shape is, with rows of cols elements unless cols is 0.
func (b *binder) table(name string, cols int) table {
	t := b.f.Tensor(name)
	if t == nil || b.err != nil {
		return table{}
	}
	if cols == 0 {
		cols = t.Shape[0]
	}
	if t = b.take(name, cols, t.Rows()); t == nil {
		return table{}
	}
	if t.Type == quant.I32 {
		b.fail("tensor %q: a matrix of type %s is not supported", name, t.Type)
		return table{}
	}
	out := table{rows: t.Rows(), cols: cols, data: make([]float32, t.Rows()*cols)}
	quant.Decode(t.Type, out.data, t.Data)
	b.loaded(t, true)
	return out
}

// numbers takes in a vector that is not in the file; what names it in errors.
func (b *binder) numbers(what string, x []float32) *compute.Vector {
	if b.err != nil {
		return nil
	}
	data := make([]byte, quant.F32.RowBytes(len(x)))
	quant.Encode(quant.F32, data, x)
	v, err := b.dev.Vector(compute.Source{Name: what, Type: quant.F32, Rows: 1, Cols: len(x), Data: data, Split: compute.Split{Tier: b.tier}})
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	return v
}

// vector binds name as [n].
func (b *binder) vector(name string, n int) *compute.Vector {
	parts := b.vectorSlices(name, n)
	if parts == nil {
		return nil
	}
	return parts[0]
}

// neuronVector binds name as [n], its neurons in the order given; nil keeps the file's.
func (b *binder) neuronVector(name string, n int, order []int32) *compute.Vector {
	if order == nil {
		return b.vector(name, n)
	}
	t := b.take(name, n, 1)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 {
		b.fail("tensor %q: a vector of type %s is not supported", name, t.Type)
		return nil
	}
	size := t.Type.RowBytes(1)
	sorted := make([]byte, 0, len(t.Data))
	for _, from := range order {
		sorted = append(sorted, t.Data[int(from)*size:][:size]...)
	}
	v, err := b.dev.Vector(compute.Source{Name: name, Type: t.Type, Rows: 1, Cols: n, Data: sorted, Split: compute.Split{Tier: b.tier}})
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	b.loaded(t, false)
	return v
}

// vectorSlices binds consecutive ranges of one vector as vectors of their own.
func (b *binder) vectorSlices(name string, lens ...int) []*compute.Vector {
	total := 0
	for _, n := range lens {
		total += n
	}
	return b.slicesOf(name, b.take(name, total, 1), lens...)
}

// rowsVector binds name [rows, cols] as one vector, row after row.
func (b *binder) rowsVector(name string, rows, cols int) *compute.Vector {
	if parts := b.slicesOf(name, b.take(name, cols, rows), rows*cols); parts != nil {
		return parts[0]
	}
	return nil
}

// slicesOf is vectorSlices of a tensor that was taken, or nil.
func (b *binder) slicesOf(name string, t *gguf.Tensor, lens ...int) []*compute.Vector {
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 {
		b.fail("tensor %q: a vector of type %s is not supported", name, t.Type)
		return nil
	}
	var out []*compute.Vector
	at := 0
	for _, n := range lens {
		v, err := b.dev.Vector(compute.Source{
			Name: name, Type: t.Type, Rows: 1, Cols: n,
			Data: t.Data[t.Type.RowBytes(at):t.Type.RowBytes(at+n)], Split: compute.Split{Tier: b.tier},
		})
		if err != nil {
			b.fail("%w", err)
			return nil
		}
		out = append(out, v)
		at += n
	}
	b.loaded(t, false)
	return out
}

// floats reads a vector to the host.
func (b *binder) floats(name string, n int) []float32 {
	t := b.take(name, n, 1)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 || t.Type == quant.I32 {
		b.fail("tensor %q: a vector of type %s is not supported", name, t.Type)
		return nil
	}
	out := make([]float32, n)
	quant.Decode(t.Type, out, t.Data)
	b.loaded(t, false)
	return out
}

// ignore claims tensors that carry nothing the forward pass needs (rope.freqs caches, attention masks).
func (b *binder) ignore(name string) {
	if b.has(name) {
		b.taken[name] = true
	}
}

// ignoreFurther claims the tensors of c's layers that predict further tokens, unless they are loaded.
func (b *binder) ignoreFurther(c *Config) {
	for _, t := range b.f.Tensors {
		if l, ok := blockOf(t.Name); ok && l >= c.Layers && l-c.Layers < c.Further {
			b.ignore(t.Name)
		}
	}
}

// blockOf returns the layer that a tensor's name begins with.
func blockOf(name string) (l int, ok bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	l, err := strconv.Atoi(number)
	return l, ok && err == nil
}

// Loads reports whether the tensor of c's file called name is loaded: those of layers that predict further tokens are
// where the first of these is asked for and they are its.
func (c *Config) Loads(name string) bool {
	l, ok := blockOf(name)
	return !ok || l < c.Layers || c.FurtherCached && l == c.Layers
}

// finish names what is left over.
func (b *binder) finish() error {
	if b.err != nil {
		return b.err
	}
	var left []string
	for _, t := range b.f.Tensors {
		if !b.taken[t.Name] {
			left = append(left, t.Name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	sort.Strings(left)
	shown, more := left, ""
	if len(left) > 3 {
		shown, more = left[:3], fmt.Sprintf(" and %d more", len(left)-3)
	}
	b.fail("surplus tensors that architecture and settings do not use: %s%s", strings.Join(shown, ", "), more)
	return b.err
}
