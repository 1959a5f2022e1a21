package hybrid_test

import (
	"errors"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tapes is a GPU without a GPU: it keeps a segment's operations and plays them again, as a GPU does.
type tapes struct {
	*cpu.Device
	kept   map[compute.Segment]*tape
	padded bool // steps have padding, which goes to a page of its own: the cache's last, of sparePages
	lead   int  // the row of logits of the last segment that the step's first was
}

func newTapes(d *cpu.Device, padded bool) *tapes {
	return &tapes{Device: d, kept: map[compute.Segment]*tape{}, padded: padded}
}

// sparePages are the pages of the cache of a model on padded tapes.
const sparePages = 4

// Shape gives every kind of rows up to four more, to a multiple of four.
func (c *tapes) Shape(seg, most compute.Segment) compute.Segment {
	if !c.padded {
		return seg
	}
	decode, prompts := seg.Decode, seg.Rows-seg.Decode
	decodeOut, promptOut := seg.DecodeOut, seg.Out-seg.DecodeOut
	for _, n := range []*int{&decode, &prompts} {
		if *n > 0 {
			*n += 4 - *n%4
		}
	}
	if decodeOut > 0 {
		decodeOut = min(decodeOut+1, most.Out-promptOut)
	}
	if promptOut > 0 {
		promptOut = min(promptOut+1, most.Out-decodeOut)
	}
	return compute.Segment{Name: seg.Name, Rows: decode + prompts, Decode: decode, Out: decodeOut + promptOut, DecodeOut: decodeOut}
}

func (c *tapes) Spare(int) int { return 8 }

// Read reads logits, and no rows of tokens.
func (c *tapes) Read(t compute.Tensor, i int) ([]float32, error) { return c.Device.Read(t, c.lead+i) }

// pad returns p as its segment has it.
func pad(seg compute.Segment, p *compute.Params) *compute.Params {
	lead := seg.Lead(p)
	if lead == 0 && len(p.Tokens) == seg.Rows && len(p.Out) == seg.Out {
		return p
	}
	q := &compute.Params{
		Decode: seg.Decode, Tokens: make([]int32, seg.Rows), Pos: make([]int32, seg.Rows), Seq: make([]int32, seg.Rows), Out: make([]int32, seg.Out),
		Pages: append(slices.Clone(p.Pages), []int32{sparePages - 1}), Threshold: p.Threshold,
	}
	for i := range q.Seq {
		q.Seq[i] = int32(len(p.Pages))
	}
	copy(q.Tokens[lead:], p.Tokens)
	copy(q.Pos[lead:], p.Pos)
	copy(q.Seq[lead:], p.Seq)
	for i := range q.Out {
		if i >= seg.DecodeOut {
			q.Out[i] = int32(seg.Rows - 1)
		}
	}
	for i, row := range p.Out {
		q.Out[seg.LeadOut(p)+i] = row + int32(lead)
	}
	return q
}

// tape is a recorded segment. What Download and Upload pass lies in memory of its own, as between a GPU and its host.
type tape struct {
	dev *cpu.Device
	seg compute.Segment
	ops []func(p *compute.Params) error
}

func (c *tapes) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	t := c.kept[seg]
	if t == nil {
		t = &tape{dev: c.Device, seg: seg}
		body(compute.NewVerbs(t))
		c.kept[seg] = t
	}
	c.lead = seg.LeadOut(p)
	for _, op := range t.ops {
		if err := op(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) op(body func(v compute.Verbs)) {
	t.ops = append(t.ops, func(p *compute.Params) error { return t.dev.Run(t.seg, pad(t.seg, p), body) })
}

func (t *tape) Overlap(host func(p *compute.Params) error, during func()) {
	before := t.ops
	t.ops = nil
	if during != nil {
		during()
	}
	// The worst order that is allowed: what runs beside comes first, and only then the host.
	t.ops = append(append(before, t.ops...), host)
}

func (t *tape) Download(x compute.Tensor) func() []float32 {
	seen := make([]float32, x.Rows*x.Cols)
	t.ops = append(t.ops, func(*compute.Params) error { copy(seen, t.dev.Data(x)); return nil })
	return func() []float32 { return seen }
}

func (t *tape) Upload(x compute.Tensor) func() []float32 {
	sent := make([]float32, x.Rows*x.Cols)
	t.ops = append(t.ops, func(*compute.Params) error { copy(t.dev.Data(x), sent); return nil })
	return func() []float32 { return sent }
}

func (t *tape) DownloadSet(s compute.Set) func() ([]uint32, int) {
	perRow := (s.N+31)/32 + 1 // a device may align rows
	seen := make([]uint32, s.Rows*perRow)
	t.ops = append(t.ops, func(*compute.Params) error { t.dev.SetWords(s, seen, perRow); return nil })
	return func() ([]uint32, int) { return seen, perRow }
}

func (t *tape) UploadSet(s compute.Set) func() ([]uint32, int) {
	perRow := (s.N+31)/32 + 1
	sent := make([]uint32, s.Rows*perRow)
	t.ops = append(t.ops, func(*compute.Params) error { t.dev.FillSet(s, sent, perRow, 0); return nil })
	return func() ([]uint32, int) { return sent, perRow }
}

func (t *tape) DownloadChoice(c compute.Choice) func() []float32 {
	seen := make([]float32, c.Rows*2*c.Used)
	t.ops = append(t.ops, func(*compute.Params) error { t.dev.ChoiceData(c, seen); return nil })
	return func() []float32 { return seen }
}

func (t *tape) UploadChoice(c compute.Choice) func() []float32 {
	sent := make([]float32, c.Rows*2*c.Used)
	t.ops = append(t.ops, func(*compute.Params) error { t.dev.FillChoice(c, sent); return nil })
	return func() []float32 { return sent }
}

func (t *tape) Host(f func() error) {
	t.ops = append(t.ops, func(*compute.Params) error { return f() })
}

func (t *tape) Do(op compute.Op) {
	op = compute.Clone(op)
	t.op(func(v compute.Verbs) {
		if f, ok := op.(*compute.SparseFFN); ok && f.Set.Mem != nil && f.Weights.Up.Rows < f.Set.N {
			v.SparseFFN(f.Out, f.X, t.hot(f.Set, f.Weights.Up.Rows), f.Weights)
			return
		}
		v.Do(op)
	})
}

// hot returns the first n neurons of a set: a GPU's sets are bits, of which it takes those that it has rows for.
func (t *tape) hot(s compute.Set, n int) compute.Set {
	perRow := (s.N + 31) / 32
	words := make([]uint32, s.Rows*perRow)
	t.dev.SetWords(s, words, perRow)
	hot, err := t.dev.Set(s.Rows, n)
	if err != nil {
		panic(err)
	}
	t.dev.FillSet(hot, words, perRow, 0)
	return hot
}

func cloned(rows [][]float32) (out [][]float32) {
	for _, r := range rows {
		out = append(out, slices.Clone(r))
	}
	return out
}

// StreamBuffer returns a place in the test's memory, where there is always room.
func (c *tapes) StreamBuffer(size int64) (any, error) {
	if size <= 0 {
		return nil, errors.New("a room of no size")
	}
	return &size, nil
}

// StreamedBytes is of rows that lie as in a file.
func (c *tapes) StreamedBytes(t quant.Type, elements int) int64 {
	whole := max(quant.QK, t.BlockElems())
	return int64(t.RowBytes((elements + whole - 1) / whole * whole))
}

func (t *tape) UploadWeights(room any, sources []compute.Source, uses []compute.Use) ([]*compute.Matrix, func(i int, data []byte)) {
	var matrices []*compute.Matrix
	left := *room.(*int64)
	for _, s := range sources {
		matrices = append(matrices, &compute.Matrix{Name: s.Name, Type: s.Type, Rows: s.Rows, Cols: s.Cols})
		left -= int64(s.Rows * s.Type.RowBytes(s.Cols))
	}
	if left < 0 {
		panic("there is no room for what is brought")
	}
	staged := make([][]byte, len(sources))
	t.ops = append(t.ops, func(*compute.Params) error {
		for i, s := range sources {
			s.Data = staged[i]
			m, err := t.dev.Matrix(s, uses[i])
			if err != nil {
				return err
			}
			*matrices[i] = *m
		}
		return nil
	})
	return matrices, func(i int, data []byte) { staged[i] = slices.Clone(data) }
}
