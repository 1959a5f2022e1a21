package compute

// Select chooses, for each token, blocks of the positions up to its own, for Attention.Seen. A position t has the score
//
//	Σ_h W[h]·q_h·k_t
//
// over the index queries of a group and the index key at t. A block has the highest score of its positions up to the
// token's own. The blocks with the highest scores are chosen, and the first ones among equals. If there are no more
// blocks than can be chosen, all are.
//
// Sources: DeepSeek-AI 2025, DeepSeek-V3.2; MiniMax 2026, MiniMax-M3.
type Select struct {
	Blocks Tensor // [n, groups·How.Row()] see Seen
	Q      Tensor // [n, groups·heads·key]
	W      Tensor // [n, groups·heads]; without Mem: ones
	Cache  *Cache
	Layer  int // has one KV head, and its keys are the index keys
	How    Selection
}

// Selection holds the parameters of a Select.
type Selection struct {
	Groups    int  // groups of index queries; each chooses its own blocks
	Block     int  // positions of a block; 1: positions are chosen one by one
	Top       int  // blocks that are chosen, at most
	Local     int  // the last Local blocks, including the token's own, are always chosen; at most Top
	Ends      bool // a block's score is its last position's, and an incomplete block is not chosen
	Open      bool // with Ends: the positions after the last complete block are also seen, as one more block
	Rectified bool // a product q_h·k_t below 0 counts as 0
}

// Most returns the number of blocks that a row may list.
func (s Selection) Most() int {
	if s.Open {
		return s.Top + 1
	}
	return s.Top
}

// Row returns the elements of a group's list: the number of its blocks, and room for Most blocks.
func (s Selection) Row() int { return 1 + s.Most() }

// Seen returns Attention.Seen for the blocks that a Select wrote.
func (s Selection) Seen(blocks Tensor) Seen { return Seen{blocks, s.Groups, s.Block} }

// Candidates returns the number of blocks that a token at position pos chooses from.
func (s Selection) Candidates(pos int) int {
	if s.Ends {
		return (pos + 1) / s.Block
	}
	return pos/s.Block + 1
}

// OpenAt reports whether a token at position pos sees an open block.
func (s Selection) OpenAt(pos int) bool { return s.Open && (pos+1)%s.Block != 0 }

// Fits reports whether the operands' shapes belong together.
func (o *Select) Fits() bool {
	h, l := &o.How, o.Cache.Layers[o.Layer]
	return h.Groups > 0 && h.Block > 0 && h.Top > 0 && h.Local >= 0 && h.Local <= h.Top && (h.Ends || !h.Open) && (h.Local == 0 || !h.Ends) &&
		l.Heads == 1 && (l.Every == 0 || h.Ends && l.Every == h.Block) && o.Q.Cols > 0 && o.Q.Cols%(h.Groups*l.Key) == 0 && o.Blocks.Cols == h.Groups*h.Row() && o.Blocks.Rows == o.Q.Rows &&
		(o.W.Mem == nil || o.W.Cols == o.Q.Cols/l.Key && o.W.Rows == o.Q.Rows)
}

// Visit implements Op.
func (o *Select) Visit(v Visitor) {
	v.Tensor(&o.Blocks, Write)
	v.Tensor(&o.Q, Read)
	v.Tensor(&o.W, Read)
	v.Cache(&o.Cache, &o.Layer)
}

// Select does a Select.
func (v Verbs) Select(o Select) {
	v.calls.choose = o
	v.Do(&v.calls.choose)
}

// Seen limits attention to blocks of positions that differ from token to token. The zero value limits nothing.
type Seen struct {
	// Blocks has a list for each of Groups: the number of its blocks, at least one, then the blocks in ascending order,
	// and zeros. Block b is the positions from b·Block on, up to the token's own: all blocks but the last are complete.
	// KV head h of n sees the blocks of group h·Groups/n. [n, groups·row]
	Blocks Tensor
	Groups int
	Block  int // positions of a block
}

// All reports whether attention is not limited.
func (s *Seen) All() bool { return s.Blocks.Mem == nil }

// List returns the blocks of a group in a row of Blocks. It clamps their number, since a faulty GPU may write any.
func (s *Seen) List(row []float32, group int) []float32 {
	n := len(row) / s.Groups
	list := row[group*n:][:n]
	return list[1:][:min(max(int(list[0]), 1), n-1)]
}

// Len returns the number of positions that a token at position pos sees of a list.
func (s *Seen) Len(list []float32, pos int) int {
	last := len(list) - 1
	return last*s.Block + min(max(pos+1-int(list[last])*s.Block, 1), s.Block)
}
