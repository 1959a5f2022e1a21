package compute

// Embed writes row Tokens[i] of Table to row i of Dst.
type Embed struct {
	Dst   Tensor  // [n, cols]
	Table *Matrix // [n_vocab, cols]
}

// Visit implements Op.
func (o *Embed) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Matrix(&o.Table)
}

// Embed does an Embed.
func (v Verbs) Embed(dst Tensor, table *Matrix) {
	v.calls.embed = Embed{dst, table}
	v.Do(&v.calls.embed)
}

// AddPosition adds row Pos[i]+Offset of Table to row i of X.
type AddPosition struct {
	X      Tensor  // [n, cols]
	Table  *Matrix // [n_ctx+Offset, cols]
	Offset int
}

// Visit implements Op.
func (o *AddPosition) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Matrix(&o.Table)
}

// AddPosition does an AddPosition.
func (v Verbs) AddPosition(x Tensor, table *Matrix, offset int) {
	v.calls.addPosition = AddPosition{x, table, offset}
	v.Do(&v.calls.addPosition)
}

// AddType adds row Types[i] of Table to row i of X.
type AddType struct {
	X     Tensor  // [n, cols]
	Table *Matrix // [types, cols]
}

// Visit implements Op.
func (o *AddType) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Matrix(&o.Table)
}

// AddType does an AddType.
func (v Verbs) AddType(x Tensor, table *Matrix) {
	v.calls.addType = AddType{x, table}
	v.Do(&v.calls.addType)
}

// CopyColumns copies Count ranges of Width columns: Dst[t, To.First + i·To.Step + j] = Src[t, From.First + i·From.Step
// + j].
type CopyColumns struct {
	Dst, Src     Tensor // [n, cols of each]
	To, From     Ranges
	Width, Count int
}

// Ranges says where ranges of columns begin: the first at First, each further one Step columns later. With a step of 0
// all are the same.
type Ranges struct{ First, Step int }

// Visit implements Op.
func (o *CopyColumns) Visit(v Visitor) {
	v.Tensor(&o.Dst, ReadWrite) // other columns keep what they hold
	v.Tensor(&o.Src, Read)
}

// CopyColumns does a CopyColumns.
func (v Verbs) CopyColumns(dst, src Tensor, to, from Ranges, width, count int) {
	v.calls.copyColumns = CopyColumns{dst, src, to, from, width, count}
	v.Do(&v.calls.copyColumns)
}

// Slice copies columns of X from From on to Dst.
type Slice struct {
	Dst  Tensor // [n, some]
	X    Tensor // [n, cols]
	From int
}

// Visit implements Op.
func (o *Slice) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
}

// Slice does a Slice.
func (v Verbs) Slice(dst, x Tensor, from int) {
	v.calls.slice = Slice{dst, x, from}
	v.Do(&v.calls.slice)
}

// Gather copies row Out[i] of X to row i of Dst.
type Gather struct {
	Dst Tensor // [n_out, cols]
	X   Tensor // [n, cols]
}

// Visit implements Op.
func (o *Gather) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
}

// Gather does a Gather.
func (v Verbs) Gather(dst, x Tensor) {
	v.calls.gather = Gather{dst, x}
	v.Do(&v.calls.gather)
}

// Insert makes a row of X what Params.Given has for it, from column First on, or adds that where Add is set. Rows for
// which nothing is given stay as they are.
type Insert struct {
	X     Tensor // [n, cols]
	First int
	Add   bool
}

// Visit implements Op.
func (o *Insert) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// Insert does an Insert.
func (v Verbs) Insert(x Tensor, first int, add bool) {
	v.calls.insert = Insert{x, first, add}
	v.Do(&v.calls.insert)
}

// Precede copies row i-1 of X to row i of Dst, if it is the previous position of the same sequence. Other rows of Dst
// become the row of their sequence in Params.Before, or zeros.
type Precede struct {
	Dst, X Tensor // [n, cols]
}

// Visit implements Op.
func (o *Precede) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
}

// Precede does a Precede.
func (v Verbs) Precede(dst, x Tensor) {
	v.calls.precede = Precede{dst, x}
	v.Do(&v.calls.precede)
}
