package vulkan

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// paramsLayout is where a step's compute.Params lie in device memory, for shaders/params.glsl; a recording fixes it. In words of four
// bytes: tokens of the step, rows of logits, threshold, sequences; then Tokens[rows], Pos[rows], Seq[rows], Out[out], where each
// sequence's pages begin [sequences], and the pages.
type paramsLayout struct {
	rows, out int
	tables    int // room for the last two
}

const paramsHeader = 4

// layoutFor returns the layout of a recording made with p, with room for tables that grow.
func layoutFor(seg compute.Segment, p *compute.Params) paramsLayout {
	l := paramsLayout{rows: max(seg.Rows, len(p.Tokens)), out: max(seg.Out, len(p.Out)), tables: 64}
	for n := tableWords(p); l.tables < n+n/4; {
		l.tables *= 2
	}
	return l
}

func tableWords(p *compute.Params) int {
	n := len(p.Pages)
	for _, pages := range p.Pages {
		n += len(pages)
	}
	return n
}

// holds reports whether p fits.
func (l paramsLayout) holds(p *compute.Params) bool {
	return max(len(p.Tokens), len(p.Pos), len(p.Seq)) <= l.rows && len(p.Out) <= l.out && tableWords(p) <= l.tables
}

func (l paramsLayout) words() int { return paramsHeader + 3*l.rows + l.out + l.tables }

// write fills dst with p.
func (l paramsLayout) write(p *compute.Params, dst []byte) {
	w := words(dst)
	w[0], w[1], w[2], w[3] = uint32(len(p.Tokens)), uint32(len(p.Out)), math.Float32bits(p.Threshold), uint32(len(p.Pages))
	at := paramsHeader
	for _, part := range [...][]int32{p.Tokens, p.Pos, p.Seq} {
		put(w[at:at+l.rows], part)
		at += l.rows
	}
	put(w[at:at+l.out], p.Out)
	at += l.out
	next := at + len(p.Pages)
	for i, pages := range p.Pages {
		w[at+i] = uint32(next)
		put(w[next:next+len(pages)], pages)
		next += len(pages)
	}
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

// needTokens, needPositions, needPlaces and needRows check what verbs take from the params; a wrong one would be read from elsewhere.
func needTokens(n, rows int) func(*compute.Params) error {
	return func(p *compute.Params) error { return within("token", p.Tokens, n, rows) }
}

func needPositions(n, offset, rows int) func(*compute.Params) error {
	return func(p *compute.Params) error { return within("position", p.Pos, n, rows-offset) }
}

func needRows(n, rows int) func(*compute.Params) error {
	return func(p *compute.Params) error { return within("row of logits", p.Out, n, rows) }
}

func within(what string, ids []int32, n, limit int) error {
	if len(ids) < n {
		return fmt.Errorf("%d numbers of a %s for %d rows", len(ids), what, n)
	}
	for _, id := range ids[:n] {
		if id < 0 || int(id) >= limit {
			return fmt.Errorf("%s %d of %d", what, id, limit)
		}
	}
	return nil
}
