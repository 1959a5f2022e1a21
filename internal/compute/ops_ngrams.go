package compute

import (
	"math"
	"slices"
)

// Recent writes the tokens of the last positions of each row's sequence: Out[t, s] is the number of the token s positions
// back, plus one, and 0 where the sequence has none. What comes before the step is in the state's first Out.Cols−1
// numbers, the oldest first.
type Recent struct {
	Out   Tensor // [n, tokens], at least 2
	Cache *Cache
	Layer int
}

// Fits reports whether the operands' shapes belong together.
func (o *Recent) Fits() bool {
	return o.Out.Cols >= 2 && o.Out.Cols <= MostRecent && o.Cache.Layers[o.Layer].State >= o.Out.Cols-1
}

// MostRecent bounds the tokens of a Recent.
const MostRecent = 8

// MostTokens bounds the numbers of tokens that a Recent can tell apart: they are whole float32 numbers.
const MostTokens = 1<<24 - 1

// Visit implements Op.
func (o *Recent) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Cache(&o.Cache, &o.Layer)
}

// Recent does a Recent.
func (v Verbs) Recent(o Recent) {
	v.calls.recent = o
	v.Do(&v.calls.recent)
}

// NGrams says which rows of a table belong to the last tokens of a sequence. For each length from 2 to len(Factors) the
// tokens t_0, t_1, …, which are 0, 1, … positions back, are mixed to a number of 64 bits:
//
//	m = t_0·Factors[0] xor t_1·Factors[1] xor …
//
// and each of its Heads has the row First[h] + m mod Rows[h], h counting the heads of all lengths. A token End, or the
// sequence's beginning, cuts what comes before it, but not where it is t_0: all tokens from there on count as End.
type NGrams struct {
	Heads   int // heads for each length
	Factors []uint64
	First   []uint32 // [heads of all lengths]
	Rows    []uint32 // likewise, each at least 1
	End     uint32
}

// Check reports whether every row number is valid for a table with that many rows.
func (g *NGrams) Check(rows int) bool {
	n := len(g.Factors)
	if n < 2 || n > MostRecent || g.Heads < 1 || len(g.First) != (n-1)*g.Heads || len(g.Rows) != len(g.First) || g.End >= MostTokens {
		return false
	}
	return !slices.ContainsFunc(g.First, func(v uint32) bool { return v > math.MaxInt32 }) &&
		!slices.ContainsFunc(g.Rows, func(v uint32) bool { return v < 1 || v > math.MaxInt32 }) && g.last() < rows
}

// last returns the last row.
func (g *NGrams) last() (row int) {
	for h := range g.First {
		row = max(row, int(g.First[h])+int(g.Rows[h])-1)
	}
	return row
}

// Row returns the row of head h for the tokens of a row of Recent.
func (g *NGrams) Row(recent []float32, h int) int {
	mixed, ended := uint64(0), false
	for s := range 2 + h/g.Heads {
		token := uint64(g.End)
		if n := recent[s]; s == 0 || !ended && n > 0 {
			token = uint64(max(n, 1)) - 1
		}
		ended = s > 0 && (ended || token == uint64(g.End))
		mixed ^= token * g.Factors[s]
	}
	return int(g.First[h]) + int(mixed%uint64(g.Rows[h]))
}

// EmbedNGrams looks up the rows of Table for each row's last tokens, and writes all heads' rows side by side.
type EmbedNGrams struct {
	Out    Tensor  // [n, heads·cols]
	Recent Tensor  // [n, tokens] of a Recent
	Table  *Matrix // [rows, cols]
	How    *NGrams
}

// Fits reports whether the operands' shapes belong together.
func (o *EmbedNGrams) Fits() bool {
	return o.How.Check(o.Table.Rows) && o.Recent.Cols == len(o.How.Factors) && o.Out.Cols == len(o.How.First)*o.Table.Cols && o.Out.Rows == o.Recent.Rows
}

// Visit implements Op.
func (o *EmbedNGrams) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Recent, Read)
	v.Matrix(&o.Table)
}

// EmbedNGrams does an EmbedNGrams.
func (v Verbs) EmbedNGrams(o EmbedNGrams) {
	v.calls.embedNGrams = o
	v.Do(&v.calls.embedNGrams)
}

// MatchStreams computes how much each of several streams takes of a value, by how well its query matches its key: Out_c
// = σ(±√max(|s|, 1e-6))·Value with s = Key_c·Query_c/√width and its sign, which is 0 where s is.
type MatchStreams struct {
	Out, Key, Query Tensor // [n, streams·width]
	Value           Tensor // [n, width]
}

// Streams returns their number.
func (o *MatchStreams) Streams() int { return o.Out.Cols / max(1, o.Value.Cols) }

// Fits reports whether the operands' shapes belong together.
func (o *MatchStreams) Fits() bool {
	n := o.Streams()
	return n >= 1 && o.Out.Cols == n*o.Value.Cols && o.Key.Cols == o.Out.Cols && o.Query.Cols == o.Out.Cols &&
		o.Key.Rows == o.Out.Rows && o.Query.Rows == o.Out.Rows && o.Value.Rows == o.Out.Rows
}

// Visit implements Op.
func (o *MatchStreams) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Key, Read)
	v.Tensor(&o.Query, Read)
	v.Tensor(&o.Value, Read)
}

// MatchStreams does a MatchStreams. Out is none of the others.
func (v Verbs) MatchStreams(o MatchStreams) {
	v.calls.matchStreams = o
	v.Do(&v.calls.matchStreams)
}
