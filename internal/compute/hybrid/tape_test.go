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
	padded bool // steps have padding with its own page: the cache's last, of sparePages
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
	if p.Given != nil {
		q.Given = make([][]float32, seg.Rows)
		copy(q.Given[lead:], p.Given)
	}
	if p.Bounds != nil {
		q.Bounds = slices.Repeat([]compute.Bounds{{To: 1}}, seg.Rows)
		copy(q.Bounds[lead:], p.Bounds)
	}
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

// tape is a recorded segment. Download and Upload copy to and from separate memory, as between a GPU and its host.
type tape struct {
	compute.Unforeseeing
	dev *cpu.Device
	seg compute.Segment
	ops []func(p *compute.Params) error

	read map[any]int // by room: how many of ops there were when it was read last
	part map[*compute.Matrix]*piece
}

func newTape(d *cpu.Device, seg compute.Segment) *tape {
	return &tape{dev: d, seg: seg, read: map[any]int{}, part: map[*compute.Matrix]*piece{}}
}

func (c *tapes) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	t := c.kept[seg]
	if t == nil {
		t = newTape(c.Device, seg)
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
	// The worst allowed order: overlapped operations first, and then the host.
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
	if o, ok := op.(*compute.MatMul); ok {
		for _, y := range o.Products {
			if y.W != nil && t.part[y.W] != nil {
				t.pieces(o)
				return
			}
		}
	}
	t.op(func(v compute.Verbs) {
		if f, ok := op.(*compute.SparseFFN); ok && f.Set.Mem != nil && f.Weights.Up.Rows < f.Set.N {
			v.SparseFFN(f.Out, f.X, t.hot(f.Set, f.Weights.Up.Rows), f.Weights)
			return
		}
		v.Do(op)
	})
}

// hot returns the first n neurons of a set, because a GPU reads only the bits of its rows.
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

// Idles and Meanwhile: the host has no time.
func (t *tape) Idles() bool                             { return false }
func (t *tape) Meanwhile(func(ready, done func() bool)) {}

// Record fails: nothing is rehearsed on tapes.
func (c *tapes) Record(compute.Segment, *compute.Params, func(compute.Verbs)) error {
	return errors.New("tapes rehearse nothing")
}

// Rows cannot be replaced on tapes.
func (c *tapes) StagedBytes(*compute.Matrix, int) int64 { return 0 }
func (c *tapes) CopiesBeside() bool                     { return false }
func (c *tapes) RowStage(int64) (compute.RowStage, error) {
	return nil, errors.New("tapes replace no rows")
}

func cloned(rows [][]float32) (out [][]float32) {
	for _, r := range rows {
		out = append(out, slices.Clone(r))
	}
	return out
}

// StreamBuffer returns the test's memory, which always has room.
func (c *tapes) StreamBuffer(size int64) (any, error) {
	if size <= 0 {
		return nil, errors.New("a room of no size")
	}
	return &size, nil
}

// StreamedBytes returns the size of rows as in a file.
func (c *tapes) StreamedBytes(t quant.Type, elements int) int64 {
	whole := max(quant.QK, t.BlockElems())
	return int64(t.RowBytes((elements + whole - 1) / whole * whole))
}

// Feed has the host fill as early as it may: before whatever was recorded since the room was read last.
func (t *tape) Feed(buffer any, fill func(p *compute.Params) error) {
	at := t.read[buffer]
	t.ops = slices.Insert(t.ops, at, fill)
	for room, n := range t.read {
		if n > at {
			t.read[room] = n + 1
		}
	}
}

func (t *tape) UploadWeights(buffer any, weights []compute.Sent) ([]*compute.Matrix, compute.Filler) {
	var matrices []*compute.Matrix
	left := *buffer.(*int64)
	for _, s := range weights {
		m := &compute.Matrix{Name: s.Name, Type: s.Type, Rows: max(s.Rows, s.Of), Cols: s.Cols}
		matrices = append(matrices, m)
		left -= int64(s.Rows * s.Type.RowBytes(s.Cols))
		if s.Rows < s.Of {
			t.part[m] = &piece{first: s.First}
		}
	}
	if left < 0 {
		panic("there is no room for what is brought")
	}
	staged := make(staging, len(weights))
	for i, s := range weights {
		staged[i].rows, staged[i].row = s.Rows, s.Type.RowBytes(s.Cols)
	}
	t.ops = append(t.ops, func(*compute.Params) error {
		for i, s := range weights {
			s.Data = staged[i].data
			m, err := t.dev.Matrix(s.Source, s.Use)
			if err != nil {
				return err
			}
			if p := t.part[matrices[i]]; p != nil {
				p.of = m
			} else {
				*matrices[i] = *m
			}
		}
		return nil
	})
	t.read[buffer] = len(t.ops)
	return matrices, staged
}

func (t *tape) UploadPages(c *compute.Cache, find func(p *compute.Params) []int32, read func(page int32, scratch []byte) error) {
	t.ops = append(t.ops, func(p *compute.Params) error {
		for _, page := range find(p) {
			data, number := make([]byte, c.Layers[0].PageBytes()), compute.EveryLayer(page)
			if err := read(page, data); err != nil {
				return err
			}
			if c.IsWindowed(0) {
				number = compute.Page{Far: -1, Near: page, State: -1}
			}
			if err := t.dev.WritePage(c, number, [][]byte{data}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tape) Mark() uint64 { return 0 }

// After has the host come as late as it may.
func (t *tape) After(_ uint64, f func(p *compute.Params) error) { t.ops = append(t.ops, f) }

// staging is host memory that matrices pass through.
type staging []struct {
	data      []byte
	rows, row int // and the bytes of one
}

func (s staging) Fill(i int, data []byte) { s[i].data = slices.Clone(data) }

func (s staging) FillRows(i int, row func(row int, scratch []byte) []byte) {
	s[i].data = nil
	for n := range s[i].rows {
		s[i].data = append(s[i].data, row(n, make([]byte, s[i].row))...)
	}
}

func (s staging) FillPlanes(int, func(int, [][]byte)) bool { return false }

// piece is rows of a matrix, from first on.
type piece struct {
	first int
	of    *compute.Matrix
}

// pieces computes products with parts of matrices.
func (t *tape) pieces(o *compute.MatMul) {
	t.ops = append(t.ops, func(p *compute.Params) error {
		for _, y := range o.Products {
			if y.W == nil {
				break
			}
			whole, to := y, t.part[y.W]
			if to != nil {
				out, err := t.dev.Tensor(y.Out.Rows, to.of.Rows)
				if err != nil {
					return err
				}
				out.Outputs = y.Out.Outputs
				y.Out, y.W, y.Bias = out, to.of, nil
			}
			if err := t.dev.Run(t.seg, pad(t.seg, p), func(v compute.Verbs) { v.MatMul(o.X, compute.Products{y}) }); err != nil {
				return err
			}
			if to == nil {
				continue
			}
			if whole.Bias != nil {
				panic("a part of a product with a bias")
			}
			from, all := t.dev.Data(y.Out), t.dev.Data(whole.Out)
			for row := range y.Out.Rows {
				copy(all[row*whole.Out.Cols+to.first:], from[row*y.Out.Cols:][:y.Out.Cols])
			}
		}
		return nil
	})
}
