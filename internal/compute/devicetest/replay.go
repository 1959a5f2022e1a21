package devicetest

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Replay is dev, held to the contract of segments: a Run fails where its body calls other verbs, or the same with other operands,
// than the first Run of the same segment did, or reads a tensor while verbs may still be queued.
func Replay(dev compute.Device) compute.Device {
	return &replay{Device: dev, first: map[compute.Segment][]call{}}
}

// replay records every segment's verbs. One goroutine uses it at a time.
type replay struct {
	compute.Device
	first   map[compute.Segment][]call
	running bool // verbs may be queued
	read    bool // a tensor was read meanwhile
}

// call is one verb with its operands. Tensors and weights are the same where shapes and memory are.
type call struct {
	verb     string
	operands [7]any
}

func (c call) String() string {
	s := c.verb + "("
	for i, o := range c.operands {
		if o == nil {
			break
		}
		if i > 0 {
			s += ", "
		}
		s += operand(o)
	}
	return s + ")"
}

func operand(o any) string {
	switch o := o.(type) {
	case compute.Tensor:
		return fmt.Sprintf("[%d×%d] %p", o.Rows, o.Cols, o.Mem)
	case compute.Set:
		return fmt.Sprintf("set [%d×%d] %p", o.Rows, o.N, o.Mem)
	case *compute.Matrix:
		if o != nil {
			return o.Name
		}
	case *compute.Vector:
		if o != nil {
			return o.Name
		}
	case compute.Products:
		s := ""
		for _, p := range o {
			if p.W != nil {
				s += "{" + operand(p.Out) + " " + operand(p.W) + " " + operand(p.Bias) + "}"
			}
		}
		return s
	}
	return fmt.Sprint(o)
}

// Run runs body and compares its verbs with those of the segment's first run.
func (r *replay) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	rec := recorder{r: r}
	r.read = false
	err := r.Device.Run(seg, p, func(v compute.Verbs) {
		r.running = true
		rec.v = v
		body(&rec)
		r.running = false
	})
	if err != nil {
		return err
	}
	if r.read {
		return fmt.Errorf("segment %q: the body reads a tensor outside Host", seg.Name)
	}
	first, again := r.first[seg]
	if !again {
		r.first[seg] = rec.calls
		return nil
	}
	for i := range max(len(first), len(rec.calls)) {
		switch {
		case i == len(rec.calls):
			return fmt.Errorf("segment %q: %d verbs, and %d in its first run: %v is missing", seg.Name, i, len(first), first[i])
		case i == len(first):
			return fmt.Errorf("segment %q: %d verbs, and %d in its first run: %v is new", seg.Name, len(rec.calls), i, rec.calls[i])
		case rec.calls[i] != first[i]:
			return fmt.Errorf("segment %q: verb %d is %v, and was %v in its first run", seg.Name, i, rec.calls[i], first[i])
		}
	}
	return nil
}

// Read is the device's, and noted where verbs may be queued.
func (r *replay) Read(t compute.Tensor, i int) []float32 {
	r.read = r.read || r.running
	return r.Device.Read(t, i)
}

// recorder passes verbs on.
type recorder struct {
	r     *replay
	v     compute.Verbs
	calls []call
}

func (c *recorder) note(verb string, operands ...any) {
	n := call{verb: verb}
	copy(n.operands[:], operands)
	c.calls = append(c.calls, n)
}

func (c *recorder) Embed(dst compute.Tensor, table *compute.Matrix) {
	c.note("Embed", dst, table)
	c.v.Embed(dst, table)
}

func (c *recorder) AddPosition(x compute.Tensor, table *compute.Matrix, offset int) {
	c.note("AddPosition", x, table, offset)
	c.v.AddPosition(x, table, offset)
}

func (c *recorder) RMSNorm(dst, x compute.Tensor, w *compute.Vector, eps float32) {
	c.note("RMSNorm", dst, x, w, eps)
	c.v.RMSNorm(dst, x, w, eps)
}

func (c *recorder) LayerNorm(dst, x compute.Tensor, w, b *compute.Vector, eps float32) {
	c.note("LayerNorm", dst, x, w, b, eps)
	c.v.LayerNorm(dst, x, w, b, eps)
}

func (c *recorder) MatMul(x compute.Tensor, p compute.Products) {
	c.note("MatMul", x, p)
	c.v.MatMul(x, p)
}

func (c *recorder) RoPE(x compute.Tensor, headDim int, r *compute.Rope) {
	c.note("RoPE", x, headDim, r)
	c.v.RoPE(x, headDim, r)
}

func (c *recorder) StoreKV(cache *compute.Cache, layer int, k, v compute.Tensor) {
	c.note("StoreKV", cache, layer, k, v)
	c.v.StoreKV(cache, layer, k, v)
}

func (c *recorder) Attention(out, q compute.Tensor, cache *compute.Cache, layer int, scale float32) {
	c.note("Attention", out, q, cache, layer, scale)
	c.v.Attention(out, q, cache, layer, scale)
}

func (c *recorder) Add(dst, x compute.Tensor) {
	c.note("Add", dst, x)
	c.v.Add(dst, x)
}

func (c *recorder) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	c.note("Activate", dst, gate, up, act)
	c.v.Activate(dst, gate, up, act)
}

func (c *recorder) Gather(dst, x compute.Tensor) {
	c.note("Gather", dst, x)
	c.v.Gather(dst, x)
}

func (c *recorder) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	c.note("Predict", s, x, hidden, logits, fc1, fc2)
	c.v.Predict(s, x, hidden, logits, fc1, fc2)
}

func (c *recorder) SparseFFN(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) {
	c.note("SparseFFN", out, x, s, f)
	c.v.SparseFFN(out, x, s, f)
}

func (c *recorder) Host(f func()) {
	c.note("Host")
	c.v.Host(func() {
		running := c.r.running
		c.r.running = false // what was queued has ended
		f()
		c.r.running = running
	})
}
