package collect

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// device computes on another one and adds up the squares of what its matrices are multiplied with.
type device struct {
	compute.Device
	head bool             // of the matrix that gives the logits, too
	sums map[string]*sums // by tensor
}

// sums are those of one tensor.
type sums struct {
	squares []float64 // [cols]
	inputs  int64
}

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
	switch op := op.(type) {
	case *compute.MatMul:
		var names []string
		for _, p := range op.Products {
			if p.W != nil && (len(names) == 0 || names[len(names)-1] != p.W.Name) { // parts of one tensor have its name
				names = append(names, p.W.Name)
			}
		}
		e.see(op.X, names)
	case *compute.SparseFFN: // of a model whose neurons lie apart; what its down projection reads stays inside
		names := []string{op.Weights.Up.Name}
		if g := op.Weights.Gate; g != nil && g.Name != names[0] {
			names = append(names, g.Name)
		}
		e.see(op.X, names)
	}
	e.Executor.Do(op)
}

// see adds the rows of x to the sums of the named tensors.
func (e *executor) see(x compute.Tensor, names []string) {
	var wanted []*sums
	for _, name := range names {
		if !strings.HasPrefix(name, "blk.") && (!e.d.head || name != "output.weight") {
			continue
		}
		s := e.d.sums[name]
		if s == nil {
			s = &sums{squares: make([]float64, x.Cols)}
			e.d.sums[name] = s
		}
		wanted = append(wanted, s)
	}
	if len(wanted) == 0 {
		return
	}
	e.Host(func() error {
		for i := range x.Rows {
			row, err := e.d.Read(x, i)
			if err != nil {
				return err
			}
			for _, s := range wanted {
				for j, v := range row {
					s.squares[j] += float64(v) * float64(v)
				}
				s.inputs++
			}
		}
		return nil
	})
}
