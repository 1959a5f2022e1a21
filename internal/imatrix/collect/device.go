package collect

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// device wraps another device and adds up the squares of the inputs of the file's matrices.
type device struct {
	*cpu.Device
	file *gguf.File
	head bool             // of the matrix of the logits, too
	sums map[string]*sums // by tensor
}

// sums are the sums of one tensor.
type sums struct {
	squares []float64 // [matrices, cols]
	inputs  []int64   // of each matrix
}

// add adds one input of matrix i, its squares multiplied by weight.
func (s *sums) add(i int, x []float32, weight float64) {
	squares := s.squares[i*len(x):][:len(x)]
	for j, v := range x {
		squares[j] += weight * float64(v) * float64(v)
	}
	s.inputs[i]++
}

// of returns the sums of the tensor that matrix w, which may be nil, was made of, if the file has it as n matrices of
// w's form; nil for others and for tensors that are not collected.
func (d *device) of(w *compute.Matrix, n int) *sums {
	if w == nil {
		return nil
	}
	return d.ofTensor(w.Name, w.Cols, n)
}

// ofTensor returns the sums of a tensor if the file has it as n matrices with this many columns.
func (d *device) ofTensor(name string, cols, n int) *sums {
	if !strings.HasPrefix(name, "blk.") && (!d.head || name != "output.weight") {
		return nil
	}
	if inFile, matrices := size(d.file, name); inFile != cols || matrices != n {
		return nil
	}
	s := d.sums[name]
	if s == nil {
		s = &sums{make([]float64, n*cols), make([]int64, n)}
		d.sums[name] = s
	}
	return s
}

// size returns a tensor's columns and its number of matrices; 0 if f lacks the tensor.
func size(f *gguf.File, name string) (cols, matrices int) {
	t := f.Tensor(name)
	if t == nil {
		return 0, 0
	}
	matrices = 1
	for _, n := range t.Shape[min(2, len(t.Shape)):] {
		matrices *= n
	}
	return t.Shape[0], matrices
}

// ExpandsLatent returns false: otherwise the products of expanded keys and values would not be observed.
func (d *device) ExpandsLatent() bool { return false }

// Run implements compute.Device.
func (d *device) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return d.Device.Run(seg, p, func(v compute.Verbs) { body(compute.NewVerbs(&executor{v.Executor(), d})) })
}

// executor looks at products before it has them done.
type executor struct {
	compute.Executor
	d *device
}

// Do implements compute.Executor.
func (e *executor) Do(op compute.Op) {
	switch o := op.(type) {
	case *compute.MatMul:
		var all []*sums
		last := ""
		for _, p := range o.Products {
			if p.W != nil && p.W.Name != last { // parts of one tensor have its name
				last = p.W.Name
				all = append(all, e.d.of(p.W, 1))
			}
		}
		e.see(o.X, all)
	case *compute.MatMulByHead:
		heads, _ := o.Heads()
		e.seeHeads(o.X, e.d.of(o.W, heads), heads)
	case *compute.RMSNorm: // for latent attention with keys' and values' matrices in one tensor, which has other products than that with the latent
		if block, ok := strings.CutSuffix(o.W.Name, "attn_kv_a_norm.weight"); ok {
			defer e.see(o.Dst, []*sums{e.d.ofTensor(block+"attn_kv_b.weight", o.Dst.Cols, 1)})
		}
	case *compute.SparseFFN: // in models with separate neurons; the input of the down projection stays inside
		all := []*sums{e.d.of(o.Weights.Up, 1)}
		if g := o.Weights.Gate; g != nil && g.Name != o.Weights.Up.Name {
			all = append(all, e.d.of(g, 1))
		}
		e.see(o.X, all)
	case *compute.Experts:
		op = e.seeExperts(o)
	}
	e.Executor.Do(op)
}

// see adds the rows of x to all sums; some may be nil.
func (e *executor) see(x compute.Tensor, all []*sums) {
	all = slices.DeleteFunc(all, func(s *sums) bool { return s == nil })
	if len(all) == 0 {
		return
	}
	e.rows(x, func(row []float32) {
		for _, s := range all {
			s.add(0, row, 1)
		}
	})
}

// seeHeads adds the parts of x's rows, one for each head, to s, which may be nil.
func (e *executor) seeHeads(x compute.Tensor, s *sums, heads int) {
	if s == nil {
		return
	}
	e.rows(x, func(row []float32) {
		cols := len(row) / heads
		for h := range heads {
			s.add(h, row[h*cols:][:cols], 1)
		}
	})
}

// rows calls each with every row of x, once x is computed.
func (e *executor) rows(x compute.Tensor, each func(row []float32)) {
	e.Host(func() error {
		for i := range x.Rows {
			row, err := e.d.Read(x, i)
			if err != nil {
				return err
			}
			each(row)
		}
		return nil
	})
}

// seeExperts adds the rows of X to the sums of the experts that they are routed to, and returns the operation to do
// instead of o: it adds the inputs of the down projections.
func (e *executor) seeExperts(o *compute.Experts) compute.Op {
	n, w := o.Choice.N, &o.Weights
	up, gate, down := e.d.of(w.Up, n), e.d.of(w.Gate, n), e.d.of(w.Down, n)
	chosen := make([]float32, o.Choice.Rows*2*o.Choice.Used)
	t := -1
	e.Host(func() error {
		e.d.ChoiceData(o.Choice, chosen)
		return nil
	})
	e.rows(o.X, func(row []float32) {
		t++
		used := o.Choice.Used
		of := chosen[t*2*used:]
		for k, expert := range of[:used] {
			weight := 1.0
			if w.Before {
				weight = float64(of[used+k]) * float64(of[used+k])
			}
			for _, s := range []*sums{up, gate} {
				if s != nil {
					s.add(int(expert), row, weight)
				}
			}
			if down != nil {
				down.inputs[int(expert)]++ // its squares are added where the activations are computed
			}
		}
	})
	if down == nil {
		return o
	}
	with := *o
	with.Weights.Active = &compute.Activity{Squares: down.squares}
	return &with
}
