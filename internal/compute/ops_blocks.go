package compute

// Compressed attention reads two kinds of keys: those of the positions in a window, and one for each block of positions
// since the start of the sequence, computed from the block's positions. Keys are also the values.
//
// Source: DeepSeek-AI 2026, DeepSeek-V4.

// Compress reduces what a layer of a cache keeps of a block's positions: keys c and values s of one head, columns from
// At on. If a token's position ends a block, its row of Out becomes, element by element,
//
//	Out = Σ_p w_p·c_p,   w = softmax over p of s_p + Bias[p mod Block]
//
// over the block's positions p. Other tokens' rows become zeros. With Overlap c and s have twice the columns: the
// block's own positions use the second half, and the positions of the block before it, if there is one, add their first
// half.
type Compress struct {
	Out     Tensor // [n, width]
	Cache   *Cache
	Layer   int
	Bias    *Vector // [Block·columns], a row of columns for each position of a block
	Block   int     // positions
	At      int
	Overlap bool
}

// Columns returns how many columns of a position's keys and values are read.
func (o *Compress) Columns() int {
	if o.Overlap {
		return 2 * o.Out.Cols
	}
	return o.Out.Cols
}

// Fits reports whether the operands' shapes belong together.
func (o *Compress) Fits() bool {
	l, n := o.Cache.Layers[o.Layer], o.Columns()
	return o.Block > 0 && l.Heads == 1 && !l.Within && l.Every == 0 && l.KeyType == KVF32 && l.ValueType == KVF32 && l.Key == l.Value &&
		o.At >= 0 && o.At+n <= l.Key && o.Bias.Len == o.Block*n
}

// Span returns the positions [from, pos] that Compress reads at a position that ends a block, and the first of the
// block's own positions, which use the second half.
func (o *Compress) Span(pos int) (from, own int) {
	own = pos + 1 - o.Block
	if o.Overlap {
		return max(0, own-o.Block), own
	}
	return own, own
}

// Visit implements Op.
func (o *Compress) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Cache(&o.Cache, &o.Layer)
	v.Vector(&o.Bias)
}

// Compress does a Compress.
func (v Verbs) Compress(o Compress) {
	v.calls.compress = o
	v.Do(&v.calls.compress)
}

// AttendBlocks computes attention over the positions of a window, stored in layer Layer of a cache, and over the blocks
// that end at or before the token's own position, stored in layer Blocks with Every equal to a block's length. Both
// layers have one KV head with keys that are also the values. Chosen lists the blocks that count; without Mem all do.
type AttendBlocks struct {
	Out, Q Tensor // [n, heads·key]
	Cache  *Cache
	Layer  int
	// Of is the cache again, as Visit passes it.
	Of     *Cache
	Blocks int
	Chosen Tensor // [n, 1 + most] the number of blocks, and then theirs
	How    Attention
}

// Fits reports whether the operands' shapes belong together.
func (o *AttendBlocks) Fits() bool {
	raw, blocks := o.Cache.Layers[o.Layer], o.Of.Layers[o.Blocks]
	same := raw
	same.Every, same.Reach = blocks.Every, blocks.Reach
	return raw.Heads == 1 && raw.Within && raw.Value == raw.Key && raw.Every == 0 && !raw.KeyType.Type().Quantised() && same == blocks && blocks.Every > 0 &&
		o.Q.Cols > 0 && o.Q.Cols%raw.Key == 0 && o.Out.Cols == o.Q.Cols && o.Out.Rows == o.Q.Rows && o.How.Window > 0 && !o.How.Later && !o.How.Parts &&
		o.How.SoftCap == 0 && o.How.Slopes == nil && (o.Chosen.Mem == nil || o.Chosen.Rows == o.Q.Rows && o.Chosen.Cols > 1)
}

// Seen returns the number of blocks that a token at a position sees. chosen is its row of Chosen, or nil.
func (o *AttendBlocks) Seen(pos int, chosen []float32) int {
	whole := (pos + 1) / o.Of.Layers[o.Blocks].Every
	if chosen == nil {
		return whole
	}
	return min(max(int(chosen[0]), 0), len(chosen)-1, whole)
}

// Position returns the position that holds the key of the i-th block that the token sees.
func (o *AttendBlocks) Position(pos, i int, chosen []float32) int {
	every := o.Of.Layers[o.Blocks].Every
	if chosen != nil { // a faulty GPU may write any number
		i = min(max(int(chosen[1+i]), 0), (pos+1)/every-1)
	}
	return (i+1)*every - 1
}

// Visit implements Op.
func (o *AttendBlocks) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Q, Read)
	v.Cache(&o.Cache, &o.Layer)
	v.Cache(&o.Of, &o.Blocks)
	v.Tensor(&o.Chosen, Read)
	v.Vector(&o.How.Sinks)
}

// AttendBlocks does an AttendBlocks.
func (v Verbs) AttendBlocks(o AttendBlocks) {
	o.Of = o.Cache
	v.calls.attendBlocks = o
	v.Do(&v.calls.attendBlocks)
}
