package nn

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Binder loads a file's tensors onto a device, each exactly once. A tensor that is missing, left over or of the wrong
// shape is an error that names it. It keeps the first error in Err, so that a list of calls needs one check. A layer's
// binder takes the names of tensors without the layer's prefix.
type Binder struct {
	*binding

	// Tier is the GPU for the tensors that are bound next. Vectors go there; matrices go there if GPU is set, else to
	// RAM.
	Tier compute.Tier
	GPU  bool

	prefix string    // of the layer's tensors; empty outside of layers
	layer  int       // its number; -1 outside of layers
	role   Role      // role of the tensors that are bound next
	plan   LayerPlan // the layer's plan
}

// binding is what the binders of a model's layers share.
type binding struct {
	File *gguf.File
	Dev  compute.Device
	Err  error

	ctx      context.Context // ends the binding between two tensors
	model    Plan
	tiedHead bool    // the head was bound, and is the table of tokens
	parts    []Parts // [layers] parts of the layers bound so far
	pinned   bool    // the mapping outlives the device: compute in place where possible
	outline  bool    // see NewOutline
	stream   *gguf.Stream
	streamed map[*gguf.Tensor]bool // tensors with data that only steps bring into memory
	taken    map[string]bool
	purposes map[string]Purpose
	original map[*gguf.Tensor]*gguf.Tensor // the file's tensor for each tensor that scaled returned
	room     []byte                        // the data of the last tensor that scaled made
	adapters *Adapters
	done     int64
	total    int64
	progress func(done, total int64)

	held   func(name string) *gguf.Tensor // see NewLister; nil: File has the tensors
	listed []*gguf.Tensor
}

// NewBinder returns a binder of f's tensors to dev, for tensors outside of layers. pinned says that f stays open as
// long as dev lives. progress, which may be nil, gets the bound bytes.
func NewBinder(ctx context.Context, f *gguf.File, dev compute.Device, plan Plan, pinned bool, adapters *Adapters, progress func(done, total int64)) *Binder {
	b := &binding{File: f, Dev: dev, ctx: ctx, model: plan, pinned: pinned, adapters: adapters, taken: map[string]bool{}, purposes: map[string]Purpose{}, original: map[*gguf.Tensor]*gguf.Tensor{}, progress: progress}
	for _, t := range f.Tensors {
		b.total += int64(len(t.Data))
	}
	root := &Binder{binding: b, layer: -1, role: InHead}
	root.Place(plan.Head)
	return root
}

// Layer returns the binder of layer i, which goes where the plan says.
func (b *Binder) Layer(i int) *Binder {
	l := &Binder{binding: b.binding, prefix: fmt.Sprintf("%sblk.%d.", b.prefix, i), layer: i, plan: b.model.Layer(i)}
	l.Place(l.plan.Place)
	for len(b.parts) <= i {
		b.parts = append(b.parts, Parts{})
	}
	return l
}

// Under returns the binder of what has names that begin with prefix, outside of layers, and of layers with such names.
func (b *Binder) Under(prefix string) *Binder {
	under := *b
	under.prefix = prefix
	return &under
}

// Store reserves a part of the cache for the layer, with keys and values of each position or a state of each sequence,
// and returns the part's number. A layer may have several parts. The shape's types do not matter.
func (b *Binder) Store(s compute.KVShape) int {
	parts := &b.parts[b.layer]
	n := len(parts.Stored)
	parts.Stored = append(parts.Stored, s)
	if n >= len(b.plan.Stored) { // an outline has no cache
		return b.layer
	}
	return b.plan.Stored[n]
}

// Parts returns what the layers that were bound consist of, by their numbers.
func (b *Binder) Parts() []Parts { return b.parts }

// Fail records an error with the file's path, unless there is one already.
func (b *binding) Fail(format string, args ...any) {
	if b.Err == nil {
		b.Err = fmt.Errorf("%s: %w", b.File.Path, fmt.Errorf(format, args...))
	}
}

// key returns a key's whole name, for errors.
func (b *binding) key(name string) string {
	arch, _, _ := b.File.String("general.architecture")
	return arch + "." + name
}

// Has reports whether the file holds name.
func (b *Binder) Has(name string) bool { return b.tensor(name) != nil }

// tensor returns the file's tensor of that name, or nil.
func (b *Binder) tensor(name string) *gguf.Tensor { return b.binding.tensor(b.prefix + name) }

// bound reports whether a tensor of that name was bound.
func (b *Binder) bound(name string) bool { return b.taken[b.prefix+name] }

// Rows returns the number of rows of a tensor if no key says it. It is 1 if the file lacks the tensor; binding it then
// fails with its name.
func (b *Binder) Rows(name string) int {
	if t := b.tensor(name); sized(t) {
		return t.Rows()
	}
	return 1
}

// Cols returns the length of a tensor's rows, like Rows.
func (b *Binder) Cols(name string) int {
	if t := b.tensor(name); sized(t) {
		return t.Shape[0]
	}
	return 1
}

// take claims a tensor and checks that it has that many rows of cols elements. It applies the factor that the file may
// have for it (see FactorSuffix).
func (b *Binder) take(name string, cols, rows int) *gguf.Tensor {
	return b.takeStacked(name, 0, cols, rows)
}

// takeStacked is take for a stack of n matrices with this many rows in total; n is 0 for a single matrix.
func (b *Binder) takeStacked(name string, n, cols, rows int) *gguf.Tensor {
	t := b.claim(name)
	if t == nil {
		return nil
	}
	if b.held != nil {
		return b.list(t, n, cols, rows)
	}
	if t.Shape[0] != cols || t.Rows() != rows {
		b.Fail("tensor %q has shape %v, not [%d %d]: the file is damaged, or its keys are those of another model; convert it again", t.Name, t.Shape, cols, rows)
		return nil
	}
	if b.outline {
		return t
	}
	if data := b.stream.At(t); data != nil {
		of := *t
		of.Data = data
		b.streamed[&of] = true
		return &of
	}
	return b.scaled(t)
}

// Streaming makes the device compute matrices of s from s. s may be nil. It returns b.
func (b *Binder) Streaming(s *gguf.Stream) *Binder {
	b.stream, b.streamed = s, map[*gguf.Tensor]bool{}
	return b
}

// inPlace reports whether a tensor that was taken is computed where its data is.
func (b *Binder) inPlace(t *gguf.Tensor) bool {
	return b.streamed[t] || b.pinned && b.original[t] == nil
}

// claim returns a tensor that nothing has claimed.
func (b *Binder) claim(name string) *gguf.Tensor {
	if b.Err == nil {
		b.Err = b.ctx.Err()
	}
	if b.Err != nil {
		return nil
	}
	name = b.prefix + name
	t := b.binding.tensor(name)
	if t == nil && b.held != nil {
		t = &gguf.Tensor{Name: name}
	}
	if t == nil {
		b.Fail("tensor %q is missing: the file is incomplete, or not of the architecture that it names; download or convert it again", name)
		return nil
	}
	if b.taken[name] {
		b.Fail("tensor %q is bound twice", name)
		return nil
	}
	b.taken[name], b.purposes[name] = true, Purpose{b.role, b.layer}
	return t
}

// loaded reports the progress of a tensor that has been bound. If its data were copied, its pages are given back.
func (b *binding) loaded(t *gguf.Tensor, copied bool) {
	if b.outline {
		return
	}
	if of := b.original[t]; of != nil {
		delete(b.original, t)
		t, copied = of, true
	}
	if copied {
		b.File.DontNeed(t)
	}
	b.done += int64(len(t.Data))
	if b.progress != nil {
		b.progress(b.done, b.total)
	}
}

// Matrix binds the tensor name as a matrix [rows, cols]. use says what the matrix is for, on which its form may depend.
func (b *Binder) Matrix(name string, rows, cols int, use compute.Use) *compute.Matrix {
	return b.neurons(name, rows, cols, use, b.whole(rows), nil, nil)
}

// Place sets Tier and GPU for the tensors that are bound next, to where p puts a layer's attention or the model's head.
func (b *Binder) Place(p compute.Place) { b.Tier, b.GPU = p.Tier, p.Attention }

// whole returns how many of the n rows of a matrix that is not split go to the GPU: all or none.
func (b *Binder) whole(n int) int {
	if b.GPU {
		return n
	}
	return 0
}

// neurons is Matrix for a matrix with a row or a column for each neuron. order reorders the neurons; nil keeps the
// file's order. The first hot of them go to the GPU. The others go to RAM or, if disk is not nil, stay on disk.
func (b *Binder) neurons(name string, rows, cols int, use compute.Use, hot int, order []int32, disk *compute.OnDisk) *compute.Matrix {
	return b.bind(compute.Source{Name: name, Rows: rows, Cols: cols, Order: order, Split: compute.Split{Tier: b.Tier, Bound: hot}, Disk: disk}, use)
}

// bind binds the tensor that src names, as src says. It fills in src's type and data.
func (b *Binder) bind(src compute.Source, use compute.Use) *compute.Matrix {
	hot := src.Split.Bound
	t := b.takeStacked(src.Name, src.Stack, src.Cols, src.Rows)
	if t == nil {
		return nil
	}
	if src.Rows == 1 {
		b.shaped(src.Cols, 1)
	}
	name := t.Name
	src.Name = name
	src.Type, src.Data, src.Pinned, src.Passing = t.Type, t.Data, b.inPlace(t), b.streamed[t]
	if src.Disk != nil && !b.staysOnDisk(t) {
		return nil
	}
	m, err := b.Dev.Matrix(src, use)
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	if src.Stack == 0 && (use == compute.Rows || use == compute.Columns) {
		b.adaptNeurons(name, use, hot, src.Order, m)
	} else {
		b.adapt(name, hot > 0, m)
	}
	b.loaded(t, !b.pinned && !b.streamed[t])
	return m
}

// staysOnDisk reports whether a tensor that was taken is as it is in the file.
func (b *Binder) staysOnDisk(t *gguf.Tensor) bool {
	if b.original[t] != nil {
		b.Fail("tensor %q: the file has a factor for it, so it cannot stay on disk; give more memory", t.Name)
	}
	return b.Err == nil
}

// adapt binds what adapters add to tensor name, on the GPU if gpu is set. w are consecutive rows of the tensor.
func (b *Binder) adapt(name string, gpu bool, w ...*compute.Matrix) {
	if b.adapters == nil || b.Err != nil {
		return
	}
	b.Err = b.adapters.bind(destination{b.Dev, b.Tier, gpu}, name, w)
}

// adaptNeurons is adapt for a tensor with a row or a column for each neuron; see neurons for hot and order.
func (b *Binder) adaptNeurons(name string, use compute.Use, hot int, order []int32, w ...*compute.Matrix) {
	if b.adapters == nil || b.Err != nil {
		return
	}
	to, m := destination{b.Dev, b.Tier, hot > 0}, w[0]
	if prepared := b.plan.Neurons.Prepared; prepared != nil {
		order = composed(prepared, order)
	}
	of, transposed := strings.CutSuffix(name, "ffn_down_t.weight")
	switch {
	case transposed:
		b.Err = b.adapters.bindColumns(to, of+"ffn_down.weight", m.Cols, m.Rows, m, hot, order)
	case use == compute.Columns:
		b.Err = b.adapters.bindColumns(to, name, m.Rows, m.Cols, m, hot, order)
	default:
		b.Err = b.adapters.bindRows(to, name, w, hot, order)
	}
}

// matrixFrom binds the rows of name [rows, cols] from row first on.
func (b *Binder) matrixFrom(name string, first, rows, cols int, use compute.Use) *compute.Matrix {
	t := b.take(name, cols, rows)
	if t == nil {
		return nil
	}
	src := compute.Source{
		Name: t.Name, Type: t.Type, Rows: rows - first, Cols: cols, Pinned: b.inPlace(t), Passing: b.streamed[t],
		Split: compute.Split{Tier: b.Tier, Bound: b.whole(rows - first)},
	}
	if t.Data != nil { // otherwise only shapes are known and needed
		src.Data = t.Data[first*t.Type.RowBytes(cols):]
	}
	m, err := b.Dev.Matrix(src, use)
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	b.adapt(t.Name, src.Split.Bound > 0, m)
	b.loaded(t, !b.pinned && !b.streamed[t])
	return m
}

// slices binds consecutive rows of one tensor as several matrices, such as a fused Q, K and V. rows has the number of
// rows of each. It returns nil after an error.
func (b *Binder) slices(name string, cols int, use compute.Use, rows ...int) []Linear {
	total := 0
	for _, r := range rows {
		total += r
	}
	return b.neuronSlices(name, cols, use, b.whole(total), nil, nil, rows...)
}

// neuronSlices is slices for matrices that may have a row for each neuron, such as a fused gate and up. The rows of each
// part are put into order, and the first hot rows of each go to the GPU. A part stays on the disk if disk, or its element
// for the part, is not nil.
func (b *Binder) neuronSlices(name string, cols int, use compute.Use, hot int, order []int32, disk []*compute.OnDisk, rows ...int) []Linear {
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
	for i, r := range rows {
		var data []byte
		if t.Data != nil { // otherwise only shapes are known and needed
			data = t.Data[at : at+r*rowBytes]
		}
		src := compute.Source{
			Name: t.Name, Type: t.Type, Rows: r, Cols: cols,
			Data: data, Pinned: b.inPlace(t), Order: order, Split: compute.Split{Tier: b.Tier, Bound: min(hot, r)},
		}
		if disk != nil && disk[i] != nil {
			if src.Disk = disk[i]; !b.staysOnDisk(t) {
				return nil
			}
		}
		m, err := b.Dev.Matrix(src, use)
		if err != nil {
			b.Fail("%w", err)
			return nil
		}
		out = append(out, m)
		at += r * rowBytes
	}
	if use == compute.Rows {
		b.adaptNeurons(t.Name, use, hot, order, out...)
	} else {
		b.adapt(t.Name, hot > 0, out...)
	}
	b.loaded(t, !b.pinned && !b.streamed[t])
	var linears []Linear
	for _, m := range out {
		linears = append(linears, b.Adapted(m))
	}
	return linears
}

// Adapted returns a layer with the matrix m and what adapters add to it.
func (b *Binder) Adapted(m *compute.Matrix) Linear {
	if m == nil || b.adapters == nil {
		return Linear{W: m}
	}
	return Linear{W: m, adapters: b.adapters.dense[m], neurons: b.adapters.neurons[m]}
}

// Vector binds name as [n].
func (b *Binder) Vector(name string, n int) *compute.Vector {
	parts := b.vectors(name, n)
	if parts == nil {
		return nil
	}
	return parts[0]
}

// neuronVector binds name as [n], its neurons in the order given; nil keeps the file's.
func (b *Binder) neuronVector(name string, n int, order []int32) *compute.Vector {
	if order == nil {
		return b.Vector(name, n)
	}
	t := b.take(name, n, 1)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 {
		b.Fail("tensor %q: a vector of type %s is not supported", t.Name, t.Type)
		return nil
	}
	size := t.Type.RowBytes(1)
	sorted := make([]byte, 0, len(t.Data))
	for _, from := range order {
		sorted = append(sorted, t.Data[int(from)*size:][:size]...)
	}
	v, err := b.Dev.Vector(compute.Source{Name: t.Name, Type: t.Type, Rows: 1, Cols: n, Data: sorted, Split: compute.Split{Tier: b.Tier}})
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	b.loaded(t, false)
	return v
}

// vectors binds consecutive ranges of one vector as vectors of their own.
func (b *Binder) vectors(name string, lens ...int) []*compute.Vector {
	total := 0
	for _, n := range lens {
		total += n
	}
	return b.slicesOf(b.take(name, total, 1), lens...)
}

// rowsVector binds name [rows, cols] as one vector, row after row.
func (b *Binder) rowsVector(name string, rows, cols int) *compute.Vector {
	parts := b.slicesOf(b.take(name, cols, rows), rows*cols)
	if b.shaped(cols, rows); parts == nil {
		return nil
	}
	return parts[0]
}

// slicesOf is vectors of a tensor that was taken; t may be nil.
func (b *Binder) slicesOf(t *gguf.Tensor, lens ...int) []*compute.Vector {
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 {
		b.Fail("tensor %q: a vector of type %s is not supported", t.Name, t.Type)
		return nil
	}
	var out []*compute.Vector
	at := 0
	for _, n := range lens {
		src := compute.Source{Name: t.Name, Type: t.Type, Rows: 1, Cols: n, Split: compute.Split{Tier: b.Tier}}
		if t.Data != nil { // otherwise only shapes are known and needed
			src.Data = t.Data[t.Type.RowBytes(at):t.Type.RowBytes(at+n)]
		}
		v, err := b.Dev.Vector(src)
		if err != nil {
			b.Fail("%w", err)
			return nil
		}
		out = append(out, v)
		at += n
	}
	b.loaded(t, false)
	return out
}

// flat binds a small matrix as one vector.
func (b *Binder) flat(name string, rows, cols int) *compute.Vector {
	t := b.take(name, cols, rows)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 {
		b.Fail("tensor %q: so small a matrix of type %s is not supported", t.Name, t.Type)
		return nil
	}
	v, err := b.Dev.Vector(compute.Source{Name: t.Name, Type: t.Type, Rows: 1, Cols: rows * cols, Data: t.Data, Split: compute.Split{Tier: b.Tier}})
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	b.loaded(t, false)
	return v
}

// Ignore claims a tensor that the forward pass does not need, such as an attention mask. shape, row length first, is
// its shape in files that must have it nevertheless.
func (b *Binder) Ignore(name string, shape ...int) {
	t := b.tensor(name)
	if t == nil {
		return
	}
	if b.taken[t.Name] = true; b.held != nil && shape != nil {
		t.Shape = shape
		b.listed = append(b.listed, t)
	}
}

// Left returns the tensors that nothing has claimed.
func (b *Binder) Left() (names []string) {
	for _, t := range b.File.Tensors {
		if !b.taken[t.Name] {
			names = append(names, t.Name)
		}
	}
	return names
}

// Finish returns Err, or an error that names the tensors that nothing has claimed.
func (b *Binder) Finish() error {
	if b.Err != nil {
		return b.Err
	}
	left := b.Left()
	if len(left) == 0 {
		return nil
	}
	sort.Strings(left)
	shown, more := left, ""
	if len(left) > 3 {
		shown, more = left[:3], fmt.Sprintf(" and %d more", len(left)-3)
	}
	b.Fail("surplus tensors that architecture and settings do not use: %s%s", strings.Join(shown, ", "), more)
	return b.Err
}
