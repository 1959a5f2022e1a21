package vulkan

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// paramsLayout holds the offsets of a step's compute.Params in device memory, for shaders/params.glsl. A recording
// fixes it. In words of four bytes: tokens of the step, rows of logits, threshold, the first row of the segment that
// belongs to the step; then Tokens[rows], Pos[rows], Seq[rows], the last position in the step of each row's sequence
// [rows], the first and the last position of Bounds[rows], Out[out], the begin of each sequence's pages [sequences],
// the pages, each for layers without windows and for those with one, and after the room for these Types[rows]. Padding
// has zeros; as a row of logits it has the step's first row.
type paramsLayout struct {
	rows, out int
	decode    int // rows that are single tokens
	decodeOut int // rows of logits that are
	tables    int // room for the sequences' pages, and for their beginnings
}

const paramsHeader = 4

// layoutFor returns the layout of a recording of seg made with p. It has room for tables that grow, at least for that
// many words of them.
func layoutFor(seg compute.Segment, p *compute.Params, tables int) paramsLayout {
	l := paramsLayout{rows: seg.Rows, out: seg.Out, decode: seg.Decode, decodeOut: seg.DecodeOut, tables: max(64, tables)}
	for n := tableWords(p); l.tables < n+n/4; {
		l.tables *= 2
	}
	return l
}

func tableWords(p *compute.Params) int {
	n := len(p.Pages)
	for _, pages := range p.Pages {
		n += 2 * len(pages)
	}
	return n
}

// holds reports whether there is room for p's tables.
func (l paramsLayout) holds(p *compute.Params) bool { return tableWords(p) <= l.tables }

// fits says why a step of p's rows does not run as seg.
func fits(seg compute.Segment, p *compute.Params) error {
	decode, rows := p.Decode, max(len(p.Tokens), len(p.Pos), len(p.Seq))
	switch {
	case decode < 0 || decode > seg.Decode || seg.Lead(p)+rows > seg.Rows:
		return fmt.Errorf("%d rows, of which %d are single tokens, do not fit a recording of %d and %d", rows, decode, seg.Rows, seg.Decode)
	case seg.LeadOut(p) < 0 || seg.LeadOut(p)+len(p.Out) > seg.Out:
		return fmt.Errorf("%d rows of logits, of which %d are single tokens', do not fit a recording of %d and %d", len(p.Out), p.DecodeOut(), seg.Out, seg.DecodeOut)
	}
	return nil
}

// lead returns the row that p's first row is; see compute.Segment.
func (l paramsLayout) lead(p *compute.Params) int { return l.decode - p.Decode }

// rowsOf returns the rows of a tensor that belong to p, of all tokens or of outputs: n rows, from lead on.
func (l paramsLayout) rowsOf(p *compute.Params, outputs bool) (lead, n int) {
	if outputs {
		return l.decodeOut - p.DecodeOut(), len(p.Out)
	}
	return l.lead(p), len(p.Tokens)
}

// types returns where the tokens' types begin.
func (l paramsLayout) types() int { return paramsHeader + 6*l.rows + l.out + l.tables }

func (l paramsLayout) words() int { return l.types() + l.rows }

// writeOutputs fills dst with p like write, but for rows of logits instead of tokens, and with only a header.
func (l paramsLayout) writeOutputs(p *compute.Params, dst []byte) {
	lead, n := l.rowsOf(p, true)
	w := words(dst)
	w[0], w[1], w[2], w[3] = uint32(n), uint32(n), math.Float32bits(p.Threshold), uint32(lead)
}

// write fills dst with p.
func (l paramsLayout) write(p *compute.Params, dst []byte) {
	w := words(dst)
	lead := uint32(l.lead(p))
	w[0], w[1], w[2], w[3] = uint32(len(p.Tokens)), uint32(len(p.Out)), math.Float32bits(p.Threshold), lead
	at := paramsHeader
	for _, part := range [...][]int32{p.Tokens, p.Pos, p.Seq} {
		room := w[at:][:l.rows]
		clear(room)
		put(room[lead:], part)
		at += l.rows
	}
	lasts := w[at:][:l.rows]
	clear(lasts)
	at += l.rows
	latest := w[at+2*l.rows+l.out:][:len(p.Pages)] // where the pages begin is written there later
	clear(latest)
	placed := min(len(p.Seq), len(p.Pos))
	for i, seq := range p.Seq[:placed] {
		if uint(seq) < uint(len(latest)) { // others are refused where they are used
			latest[seq] = max(latest[seq], uint32(p.Pos[i]))
		}
	}
	for i, seq := range p.Seq[:placed] {
		if uint(seq) < uint(len(latest)) {
			lasts[int(lead)+i] = latest[seq]
		}
	}
	firsts, ends := w[at:][:l.rows], w[at+l.rows:][:l.rows]
	clear(firsts)
	clear(ends)
	for i, b := range p.Bounds {
		firsts[int(lead)+i], ends[int(lead)+i] = uint32(b.From), uint32(b.To-1)
	}
	at += 2 * l.rows
	outs, leadOut := w[at:][:l.out], l.decodeOut-p.DecodeOut()
	for i := range outs {
		outs[i] = lead
	}
	for i, row := range p.Out {
		outs[leadOut+i] += uint32(row)
	}
	at += l.out
	next := at + len(p.Pages)
	for i, pages := range p.Pages {
		w[at+i] = uint32(next)
		near := pages // no layer reads them then
		if p.Near != nil {
			near = p.Near[i]
		}
		for j, page := range pages {
			w[next+2*j], w[next+2*j+1] = uint32(page), uint32(near[j])
		}
		next += 2 * len(pages)
	}
	types := w[l.types():][:l.rows]
	clear(types)
	put(types[lead:], p.Types)
}

func put(dst []uint32, src []int32) {
	for i, v := range src {
		dst[i] = uint32(v)
	}
}

// words is b, which is aligned, as numbers of four bytes.
func words(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// numbers is b, which is aligned, as float32.
func numbers(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// needTokens, needPositions, needTypes, needTurns, needPlaces, needBounds, needGiven and needRows check what verbs take from
// the params; a wrong one would be read from elsewhere.
func needTokens(rows int) func(*compute.Params) error {
	return func(p *compute.Params) error { return within("token", p.Tokens, 0, rows) }
}

func needPositions(offset, rows int) func(*compute.Params) error {
	return func(p *compute.Params) error { return within("position", p.Pos, len(p.Tokens), rows-offset) }
}

func needTypes(rows int) func(*compute.Params) error {
	return func(p *compute.Params) error {
		if p.Types == nil {
			return nil
		}
		return within("type", p.Types, len(p.Tokens), rows)
	}
}

// needTurns checks that rp has angles for the position of every token. A step's own positions may be negative: they
// undo a rotation.
func needTurns(rp *compute.Rope) func(*compute.Params) error {
	return func(p *compute.Params) error {
		for _, axis := range rp.Axes {
			if p.Axes != nil && (int(axis) >= len(p.Axes) || len(p.Axes[axis]) < len(p.Tokens)) {
				return fmt.Errorf("not every one of %d rows has a position along axis %d", len(p.Tokens), axis)
			}
			if p.Axes != nil && rp.Back > 0 && (int(axis) >= len(p.Behind) || len(p.Behind[axis]) < rp.Back*len(p.Pages)) {
				return fmt.Errorf("not all of the %d positions before %d sequences are known along axis %d", rp.Back, len(p.Pages), axis)
			}
		}
		return needTurn(p)
	}
}

func needTurn(p *compute.Params) error {
	if p.Turns == nil {
		return within("position", p.Pos, len(p.Tokens), math.MaxInt32)
	}
	if len(p.Turns) < len(p.Tokens) {
		return fmt.Errorf("%d numbers of a turn for %d rows", len(p.Turns), len(p.Tokens))
	}
	return nil
}

// needBounds checks that every token sees something, and nothing that has no place.
func needBounds(spec compute.CacheSpec, layer int) func(*compute.Params) error {
	return func(p *compute.Params) error {
		if len(p.Bounds) != len(p.Tokens) {
			return fmt.Errorf("%d bounds for %d rows", len(p.Bounds), len(p.Tokens))
		}
		tables := spec.Tables(layer, p)
		for i, b := range p.Bounds {
			if pages := len(tables[p.Seq[i]]); b.From < 0 || b.From > p.Pos[i] || b.To <= b.From || int(b.To) > pages*compute.PagePositions {
				return fmt.Errorf("token %d at position %d sees positions %d to %d of %d pages", i, p.Pos[i], b.From, b.To-1, pages)
			}
		}
		return nil
	}
}

// needGiven checks that rows from outside have that many values.
func needGiven(cols int) func(*compute.Params) error {
	return func(p *compute.Params) error {
		if len(p.Given) > len(p.Tokens) {
			return fmt.Errorf("%d rows are given for a step of %d", len(p.Given), len(p.Tokens))
		}
		for i, row := range p.Given {
			if row != nil && len(row) < cols {
				return fmt.Errorf("row %d is given as %d numbers instead of %d", i, len(row), cols)
			}
		}
		return nil
	}
}

func needRows() func(*compute.Params) error {
	return func(p *compute.Params) error { return within("row of logits", p.Out, 0, len(p.Tokens)) }
}

// within returns why ids are wrong: there are fewer than n, or one is negative or not below limit.
func within(what string, ids []int32, n, limit int) error {
	if len(ids) < n {
		return fmt.Errorf("%d numbers of a %s for %d rows", len(ids), what, n)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= limit {
			return fmt.Errorf("%s %d of %d", what, id, limit)
		}
	}
	return nil
}
