package cpu_test

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestExpertBytesRead: steps of single tokens count the bytes of the experts that they chose, each once, and where
// zeros are left out all gate rows of these, the up rows of open gates and the down columns of active neurons.
// Quantised blocks, which columns cut, and their padding are not counted by hand here.
func TestExpertBytesRead(t *testing.T) {
	const embd, ff, n, most = 1024, 256, 16, 8
	for _, typ := range []quant.Type{quant.F32, quant.F16} {
		for _, exact := range []bool{false, true} {
			d := must(cpu.New(cpu.Options{Threads: 2}))
			defer d.Close()
			// stack returns experts that are alike, of which row i is all 1 if positive says so, else all -1.
			stack := func(rows, cols int, use compute.Use, positive func(i int) bool) *compute.Matrix {
				row := typ.RowBytes(cols)
				values, data := make([]float32, cols), make([]byte, n*rows*row)
				for i := range n * rows {
					for j := range values {
						values[j] = -1
						if positive(i % rows) {
							values[j] = 1
						}
					}
					quant.Imitate(typ, data[i*row:][:row], values)
				}
				if !exact {
					use = compute.Dense
				}
				return must(d.Matrix(compute.Source{Name: "w", Type: typ, Rows: n * rows, Cols: cols, Data: data, Stack: n}, use))
			}
			var count compute.NeuronCount
			w := compute.ExpertWeights{ // of 256 neurons 32 gates are open, and of these 16 are active
				Gate: stack(ff, embd, compute.Rows, func(i int) bool { return i%8 == 0 }), Up: stack(ff, embd, compute.Rows, func(i int) bool { return i%16 == 0 }),
				Down: stack(embd, ff, compute.Columns, func(int) bool { return true }), Act: compute.Activation{Kind: compute.DReLU}, Exact: exact, Count: &count,
			}
			expert := int64(2*ff*typ.RowBytes(embd) + embd*typ.RowBytes(ff))
			if exact {
				expert = int64((256 + 32 + 16) * typ.RowBytes(embd))
			}
			x, out, logits := must(d.Tensor(most, embd)), must(d.Tensor(most, embd)), must(d.Tensor(most, n))
			for _, c := range []struct {
				name         string
				tokens, used int
				first        func(t int) int // of the experts that token t chooses, which are neighbours
				experts      int64           // that the step needs
			}{
				{"one token", 1, 8, func(int) int { return 3 }, 8},
				{"eight tokens of the same experts", 8, 2, func(int) int { return 5 }, 2},
				{"eight tokens, each of its own", 8, 2, func(t int) int { return 2 * t }, 16},
				{"eight tokens that share some", 8, 2, func(t int) int { return t / 2 }, 5},
			} {
				for i := range c.tokens {
					for j := range embd {
						must(d.Read(x, i))[j] = 1
					}
					for e := range n {
						must(d.Read(logits, i))[e] = 0
						if first := c.first(i); e >= first && e < first+c.used {
							must(d.Read(logits, i))[e] = 1
						}
					}
				}
				choice := must(d.Choice(most, c.used, n)).First(c.tokens)
				count = compute.NeuronCount{}
				err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, c.tokens), Decode: c.tokens}, func(v compute.Verbs) {
					v.Route(choice, logits.First(c.tokens), nil, nil, compute.Routing{Score: compute.Softmax, Scale: 1})
					v.Experts(out.First(c.tokens), x.First(c.tokens), choice, w)
				})
				if want := c.experts * expert; err != nil || count.Bytes != want || count.RAM != want {
					t.Errorf("%s, exact %t, %s: read %d bytes, %d of them in RAM, want %d of %d experts (%v)", typ, exact, c.name, count.Bytes, count.RAM, want, c.experts, err)
				}
			}
		}
	}
}
