package hybrid_test

import (
	"errors"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
)

// tapes is a card without a GPU: it keeps a segment's verbs and plays them again, as a card does.
type tapes struct {
	*cpu.Device
	kept map[compute.Segment]*tape
}

// tape is a recorded segment. What Show and Take pass lies in memory of its own, as between a card and its host.
type tape struct {
	dev *cpu.Device
	seg compute.Segment
	ops []func(p *compute.Params) error
}

func (c *tapes) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	t := c.kept[seg]
	if t == nil {
		t = &tape{dev: c.Device, seg: seg}
		body(t)
		c.kept[seg] = t
	}
	for _, op := range t.ops {
		if err := op(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) op(verb func(v compute.Verbs)) {
	t.ops = append(t.ops, func(p *compute.Params) error { return t.dev.Run(t.seg, p, verb) })
}

func (t *tape) Beside(host func(p *compute.Params) error, during func()) {
	before := t.ops
	t.ops = nil
	if during != nil {
		during()
	}
	// The worst order that is allowed: what runs beside comes first, and only then the host.
	t.ops = append(append(before, t.ops...), host)
}

func (t *tape) Show(x compute.Tensor) func() []float32 {
	seen := make([]float32, x.Rows*x.Cols)
	t.ops = append(t.ops, func(*compute.Params) error { copy(seen, t.dev.Data(x)); return nil })
	return func() []float32 { return seen }
}

func (t *tape) Take(x compute.Tensor) func() []float32 {
	sent := make([]float32, x.Rows*x.Cols)
	t.ops = append(t.ops, func(*compute.Params) error { copy(t.dev.Data(x), sent); return nil })
	return func() []float32 { return sent }
}

func (t *tape) ShowSet(s compute.Set) func() ([]uint32, int) {
	perRow := (s.N+31)/32 + 1 // a device may align rows
	seen := make([]uint32, s.Rows*perRow)
	t.ops = append(t.ops, func(*compute.Params) error { t.dev.SetWords(s, seen, perRow); return nil })
	return func() ([]uint32, int) { return seen, perRow }
}

func (t *tape) TakeSet(s compute.Set) func() ([]uint32, int) {
	perRow := (s.N+31)/32 + 1
	sent := make([]uint32, s.Rows*perRow)
	t.ops = append(t.ops, func(*compute.Params) error { t.dev.FillSet(s, sent, perRow, 0); return nil })
	return func() ([]uint32, int) { return sent, perRow }
}

func (t *tape) Host(f func()) {
	t.ops = append(t.ops, func(*compute.Params) error { f(); return nil })
}

func (t *tape) Embed(dst compute.Tensor, table *compute.Matrix) {
	t.op(func(v compute.Verbs) { v.Embed(dst, table) })
}

func (t *tape) AddPosition(x compute.Tensor, table *compute.Matrix, offset int) {
	t.op(func(v compute.Verbs) { v.AddPosition(x, table, offset) })
}

func (t *tape) RMSNorm(dst, x compute.Tensor, w *compute.Vector, eps float32) {
	t.op(func(v compute.Verbs) { v.RMSNorm(dst, x, w, eps) })
}

func (t *tape) LayerNorm(dst, x compute.Tensor, w, b *compute.Vector, eps float32) {
	t.op(func(v compute.Verbs) { v.LayerNorm(dst, x, w, b, eps) })
}

func (t *tape) MatMul(x compute.Tensor, p compute.Products) {
	t.op(func(v compute.Verbs) { v.MatMul(x, p) })
}

func (t *tape) RoPE(x compute.Tensor, headDim int, r *compute.Rope) {
	t.op(func(v compute.Verbs) { v.RoPE(x, headDim, r) })
}

func (t *tape) StoreKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	t.op(func(on compute.Verbs) { on.StoreKV(c, layer, k, v) })
}

func (t *tape) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	t.op(func(v compute.Verbs) { v.Attention(out, q, c, layer, scale) })
}

func (t *tape) Add(dst, x compute.Tensor) { t.op(func(v compute.Verbs) { v.Add(dst, x) }) }

func (t *tape) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	t.op(func(v compute.Verbs) { v.Activate(dst, gate, up, act) })
}

func (t *tape) Gather(dst, x compute.Tensor) { t.op(func(v compute.Verbs) { v.Gather(dst, x) }) }

func (t *tape) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	t.op(func(v compute.Verbs) { v.Predict(s, x, hidden, logits, fc1, fc2) })
}

func (t *tape) SparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	t.op(func(v compute.Verbs) {
		s := s
		if s.Mem != nil && w.Up.Rows < s.N { // a card's sets are bits, of which it takes those that it has rows for
			perRow := (s.N + 31) / 32
			words := make([]uint32, s.Rows*perRow)
			t.dev.SetWords(s, words, perRow)
			hot, err := t.dev.Set(s.Rows, w.Up.Rows)
			if err != nil {
				panic(err)
			}
			t.dev.FillSet(hot, words, perRow, 0)
			s = hot
		}
		v.SparseFFN(out, x, s, w)
	})
}

func cloned(rows [][]float32) (out [][]float32) {
	for _, r := range rows {
		out = append(out, slices.Clone(r))
	}
	return out
}

// Room is a place in the test's memory, where there is always room.
func (c *tapes) Room(size int64) (any, error) {
	if size <= 0 {
		return nil, errors.New("a room of no size")
	}
	return &size, nil
}

func (t *tape) Bring(room any, sources []compute.Source, uses []compute.Use) ([]*compute.Matrix, func(i int, data []byte)) {
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
