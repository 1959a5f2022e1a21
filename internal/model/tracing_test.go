package model_test

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// paper is a device that computes nothing. It writes down which weights it is given, and which operations it is to do
// with which values: everything that decides what a real device computes.
type paper struct {
	compute.Plain
	files   []*gguf.File // where weights are from: the model's, then adapters'
	expands bool
	weights []weight
	bytes   struct{ ram, gpu int64 } // bytes of weights as the device gets them
	cache   compute.CacheSpec
	run     *recording   // the last segment's
	runs    []*recording // recordings of Rehearse

	rehearsal bool
}

// weight is a matrix or a vector that the device was given.
type weight struct {
	label string // its name, and which rows of the file's tensor it has, or a hash of what is in no file as it is
	text  string // its type, shape, use and place
}

// buffer is a device's memory: an activation, a set or a choice.
type buffer struct{ _ byte }

func (d *paper) Name() string        { return "paper" }
func (d *paper) Close() error        { return nil }
func (d *paper) ExpandsLatent() bool { return d.expands }

func (d *paper) Tensor(rows, cols int) (compute.Tensor, error) {
	return compute.Tensor{Rows: rows, Cols: cols, Mem: new(buffer)}, nil
}

func (d *paper) Set(rows, n int) (compute.Set, error) {
	return compute.Set{Rows: rows, N: n, Mem: new(buffer)}, nil
}

func (d *paper) Choice(rows, used, n int) (compute.Choice, error) {
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: new(buffer)}, nil
}

func (d *paper) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	d.cache = spec
	return &compute.Cache{CacheSpec: spec}, spec.Check()
}

func (d *paper) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	if err := src.Check(); err != nil {
		return nil, err
	}
	w := weight{d.label(&src), fmt.Sprintf("%s [%d×%d] %s", src.Type, src.Rows, src.Cols, usage(use))}
	if src.Stack > 0 {
		w.text += fmt.Sprintf(", a stack of %d", src.Stack)
	}
	if src.Order != nil {
		w.text += fmt.Sprintf(", order %s", hash(src.Order))
	}
	w.text += placeOf(&src)
	gpu := int64(len(src.Data)) * int64(max(0, src.Split.Bound)) / int64(d.units(&src, use))
	d.bytes.gpu += gpu
	d.bytes.ram += int64(len(src.Data)) - gpu
	d.weights = append(d.weights, w)
	return &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: w.label}, nil
}

func (d *paper) Vector(src compute.Source) (*compute.Vector, error) {
	if err := src.CheckVector(); err != nil {
		return nil, err
	}
	w := weight{d.label(&src), fmt.Sprintf("%s [%d]", src.Type, src.Cols) + placeOf(&src)}
	if src.Split.Tier == compute.RAM {
		d.bytes.ram += int64(len(src.Data))
	} else {
		d.bytes.gpu += int64(len(src.Data))
	}
	d.weights = append(d.weights, w)
	return &compute.Vector{Name: src.Name, Len: src.Cols, Mem: w.label}, nil
}

// units returns how many units of src are divided between processors.
func (d *paper) units(src *compute.Source, use compute.Use) int {
	if use == compute.Columns && src.Stack == 0 {
		return src.Cols
	}
	return src.Rows
}

// label returns src's name, and which rows of the file's tensor it is. Changed tensors, and data without a tensor, have
// a hash instead.
func (d *paper) label(src *compute.Source) string {
	name := "made"
	at := func(data []byte, i int) bool { return i < len(data) && &data[i] == &src.Data[0] }
	for _, f := range d.files {
		t := f.Tensor(src.Name)
		if t != nil {
			name = src.Name
		}
		if t == nil || t.Type != src.Type {
			continue
		}
		if at(t.Data, 0) && len(src.Data) == len(t.Data) {
			return src.Name
		}
		each, n := t.Type.RowBytes(t.Shape[0]), src.Rows
		if t.Rows() == 1 { // a vector
			each, n = t.Type.RowBytes(1), src.Cols
		}
		for from := 0; from*each < len(t.Data); from++ {
			if at(t.Data, from*each) {
				return fmt.Sprintf("%s[%d:%d]", src.Name, from, from+n)
			}
		}
	}
	return name + "~" + hash(src.Data)
}

func hash(data any) string {
	h := fnv.New32a()
	if b, ok := data.([]byte); ok {
		h.Write(b)
	} else {
		fmt.Fprint(h, data)
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

func usage(u compute.Use) string {
	return [...]string{"dense", "precise", "head", "lookup", "rows", "columns"}[u]
}

// placeOf returns the place of src; empty for RAM.
func placeOf(src *compute.Source) (s string) {
	if src.Pinned {
		s = ", pinned"
	}
	if src.Split != (compute.Split{Tier: compute.RAM}) {
		s += fmt.Sprintf(", GPU %d: %d", src.Split.Tier, src.Split.Bound)
	}
	if src.Split.Slots {
		s += " and slots"
	}
	return s
}

func (d *paper) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	r := &recording{dev: d, segment: seg, params: *p, memory: map[any]*content{}, shapes: []string{""}}
	if d.run = r; d.runs != nil {
		d.runs = append(d.runs, r)
	}
	body(compute.NewVerbs(r))
	return r.err
}

func (d *paper) Read(t compute.Tensor, i int) ([]float32, error) {
	if !d.rehearsal { // which computes nothing
		d.run.reading("Read", d.run.read(t.Mem, d.run.tensor(t), t.Rows*t.Cols))
	}
	return make([]float32, t.Cols), nil
}

// ChoiceData is of choiceReader.
func (d *paper) ChoiceData(c compute.Choice, chosen []float32) {
	clear(chosen)
	d.run.reading("Choice", d.run.read(c.Mem, d.run.choice(c), c.Rows*c.N))
}

func (d *paper) CopyPage(*compute.Cache, compute.Page, compute.Page)    {}
func (d *paper) ReadPage(*compute.Cache, compute.Page, [][]byte) error  { return nil }
func (d *paper) WritePage(*compute.Cache, compute.Page, [][]byte) error { return nil }
func (d *paper) Steps(most int) []int                                   { return []int{most, 8, 1} }

func (d *paper) Rehearse(f func() error) error {
	d.rehearsal = true
	defer func() { d.rehearsal = false }()
	return f()
}

// recording is what a segment did. Each result of an operation is a numbered value, so that a recording shows the flow
// of data and not the memory in use.
type recording struct {
	compute.Unforeseeing
	dev     *paper
	segment compute.Segment
	params  compute.Params
	ops     []operation
	host    bool // a function on the host runs
	after   []field
	shapes  []string // shapes of values; the segment did not write value 0
	memory  map[any]*content
	lost    []any // memory with contents that are lost after the next SparseFFN
	access  map[any]compute.Access
	err     error
}

// operation is an operation, or one of the two other things that a segment does: it calls the host, or predicts a
// choice.
type operation struct {
	name   string
	gives  []int // values
	fields []field
}

// field is an operand: values, a weight's label or a number in words.
type field struct {
	name   string
	values []int
	weight string
	text   string // in words; for values, the shape in which they are read, if it differs
}

// content says which values a memory holds, column by column.
type content struct {
	size, cols int
	of         []int // [1] or [cols]
}

func (r *recording) Host(f func() error) {
	r.ops = append(r.ops, operation{name: "Host"})
	r.host = true
	if err := f(); err != nil {
		r.err = err
	}
	r.host = false
}

// reading notes that the host reads f.
func (r *recording) reading(what string, f field) {
	f.name = what
	list := &r.after
	if r.host {
		list = &r.ops[len(r.ops)-1].fields
	}
	if n := len(*list); n == 0 || !reflect.DeepEqual((*list)[n-1], f) {
		*list = append(*list, f)
	}
}

func (r *recording) Do(op compute.Op) {
	o := operation{name: compute.Name(op)}
	w := writes{r: r}
	switch x := op.(type) {
	case *compute.CopyColumns:
		w.columns(&x.Dst, x.To, x.Count, x.Width)
	case *compute.MatMulByHead:
		if n, rows := x.Heads(); x.Out.Cols > n*rows {
			w.columns(&x.Out, x.To, n, rows)
		}
	}
	r.access = map[any]compute.Access{}
	op.Visit(&w)
	r.fields(&o, "", reflect.ValueOf(op).Elem())
	for _, write := range w.list {
		o.gives = append(o.gives, write())
	}
	if o.name == "SparseFFN" {
		for _, mem := range r.lost {
			delete(r.memory, mem)
		}
		r.lost = nil
	}
	r.ops = append(r.ops, o)
}

// Foresee is of compute.Foreseer: its scratch memory has no values.
func (r *recording) Foresee(g compute.Guess) {
	o := operation{name: "Foresee"}
	r.access = map[any]compute.Access{&g.X: compute.Read}
	r.fields(&o, "", reflect.ValueOf(&g).Elem())
	r.lost = append(r.lost, g.H.Mem, g.Set.Mem, g.Hidden.Mem, g.Logits.Mem)
	r.ops = append(r.ops, o)
}

// write returns the number of a new value, which a memory's columns hold from now on; nil: all do.
func (r *recording) write(mem any, shape string, size, cols int, columns []int) int {
	v := len(r.shapes)
	r.shapes = append(r.shapes, shape)
	c := r.memory[mem]
	switch {
	case columns == nil:
		r.memory[mem] = &content{size, cols, []int{v}}
		return v
	case c == nil || c.size != size || c.cols != cols:
		c = &content{size, cols, make([]int, cols)}
		r.memory[mem] = c
	case len(c.of) < cols:
		c.of = slices.Repeat(c.of, cols)
	}
	for _, at := range columns {
		c.of[at] = v
	}
	return v
}

// read returns the values that a memory holds, which are read in a shape.
func (r *recording) read(mem any, shape string, size int) (f field) {
	c := r.memory[mem]
	if c == nil {
		return field{values: []int{0}, text: shape}
	}
	for _, v := range c.of {
		if !slices.Contains(f.values, v) {
			f.values = append(f.values, v)
		}
	}
	if size > c.size {
		f.values = append(f.values, 0)
	}
	if len(f.values) > 1 || r.shapes[f.values[0]] != shape {
		f.text = shape
	}
	return f
}

// rows returns a number of rows in words: n is the step's number of rows, o the number of rows that need logits.
func (r *recording) rows(n int, outputs bool) string {
	of, name := r.segment.Rows, "n"
	if outputs {
		of, name = r.segment.Out, "o"
	}
	switch {
	case n == of:
		return name
	case of > 0 && n%of == 0:
		return fmt.Sprint(n/of, name)
	}
	return fmt.Sprint(n)
}

func (r *recording) tensor(t compute.Tensor) string {
	return fmt.Sprintf("[%s×%d]", r.rows(t.Rows, t.Outputs), t.Cols)
}

func (r *recording) set(s compute.Set) string {
	return fmt.Sprintf("{%s×%d}", r.rows(s.Rows, s.Outputs), s.N)
}

func (r *recording) choice(c compute.Choice) string {
	return fmt.Sprintf("(%s×%d of %d)", r.rows(c.Rows, c.Outputs), c.Used, c.N)
}

// fields adds v's fields to o: read tensors, weights, and numbers that are not zero.
func (r *recording) fields(o *operation, name string, v reflect.Value) {
	add := func(f field) {
		f.name = name
		o.fields = append(o.fields, f)
	}
	reads := r.access[v.Addr().Interface()]&compute.Read != 0
	switch x := v.Interface().(type) {
	case compute.Tensor:
		if reads {
			add(r.read(x.Mem, r.tensor(x), x.Rows*x.Cols))
		}
	case compute.Set:
		if x.Mem == nil && o.name != "Foresee" {
			add(field{text: fmt.Sprintf("all of %d", x.N)}) // rows are X's
		} else if reads {
			add(r.read(x.Mem, r.set(x), x.Rows*x.N))
		}
	case compute.Choice:
		if reads {
			add(r.read(x.Mem, r.choice(x), x.Rows*x.N))
		}
	case *compute.Matrix:
		if x != nil {
			add(field{weight: x.Mem.(string)})
		}
	case *compute.Vector:
		if x != nil {
			add(field{weight: x.Mem.(string)})
		}
	case *compute.Cache:
	case *compute.Rope:
		sum := 0.0
		for _, f := range x.Freqs {
			sum += f
		}
		text := fmt.Sprintf("%s %d+%d, %.5g to %.5g, sum %.8g, ×%.6g", [...]string{"neighbours", "halves"}[x.Style], x.First, x.Dims, x.Freqs[0], x.Freqs[len(x.Freqs)-1], sum, x.Scale) + every(x.Every)
		if x.Back > 0 {
			text += fmt.Sprintf(", %d positions back", x.Back)
		}
		add(field{text: text})
	case *compute.NGrams:
		add(field{text: fmt.Sprintf("up to %d tokens by %d heads, cut by token %d", len(x.Factors), x.Heads, x.End)})
	case compute.Nonlinearity:
		add(field{text: x.String()})
	case compute.Score:
		add(field{text: [...]string{"softmax", "sigmoid", "softmax of the chosen", "root of softplus"}[x]})
	case compute.Ranges:
		add(field{text: fmt.Sprintf("%d+%d·i", x.First, x.Step)})
	case *float32:
		if x != nil {
			add(field{text: fmt.Sprintf("%.6g", *x)})
		}
	case *compute.Prior:
		if x != nil {
			add(field{text: hash(x.Shares)})
		}
	case *compute.Activity:
		if x != nil {
			add(field{text: fmt.Sprintf("%d counts, %d squares", len(x.Counts), len(x.Squares))})
		}
	case *compute.NeuronCount, *compute.NeuronBins, *compute.ExpertTable:
		if !v.IsNil() {
			add(field{text: "yes"})
		}
	case int:
		if x != 0 || name == "Layer" {
			add(field{text: fmt.Sprint(x)})
		}
	case float32:
		if x != 0 {
			add(field{text: fmt.Sprintf("%.6g", x)})
		}
	case bool:
		if x {
			add(field{text: "yes"})
		}
	default:
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				r.fields(o, v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Array:
			for i := range v.Len() {
				r.fields(o, name, v.Index(i))
			}
		default:
			panic(fmt.Sprintf("%s.%s is a %T, which traces do not have", o.name, name, x))
		}
	}
}

// writes visits an operation: it notes reads, and collects writes, to be done after the reads.
type writes struct {
	r    *recording
	list []func() int
	part *compute.Tensor // the operation writes some columns of it
	some []int
}

// columns says that an operation writes ranges of t's columns and leaves the others as they are.
func (w *writes) columns(t *compute.Tensor, at compute.Ranges, count, width int) {
	w.part = t
	for i := range count {
		for j := range width {
			w.some = append(w.some, at.First+i*at.Step+j)
		}
	}
}

func (w *writes) add(of, mem any, a compute.Access, shape string, size, cols int) {
	if mem == nil {
		return
	}
	var columns []int
	if of == any(w.part) {
		columns, a = w.some, compute.Write
		shape = fmt.Sprintf("%s of %s", fmt.Sprint(len(columns)), shape)
	}
	w.r.access[of] = a
	if a&compute.Write != 0 {
		w.list = append(w.list, func() int { return w.r.write(mem, shape, size, cols, columns) })
	}
}

func (w *writes) Tensor(t *compute.Tensor, a compute.Access) {
	w.add(t, t.Mem, a, w.r.tensor(*t), t.Rows*t.Cols, t.Cols)
}

func (w *writes) Set(s *compute.Set, a compute.Access) {
	w.add(s, s.Mem, a, w.r.set(*s), s.Rows*s.N, s.N)
}

func (w *writes) Choice(c *compute.Choice, a compute.Access) {
	w.add(c, c.Mem, a, w.r.choice(*c), c.Rows*c.N, c.N)
}

func (w *writes) Matrix(**compute.Matrix)     {}
func (w *writes) Vector(**compute.Vector)     {}
func (w *writes) Cache(**compute.Cache, *int) {}

// every says that positions are rounded down to a multiple of n; 0: they are not.
func every(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", to every %dth position", n)
}
