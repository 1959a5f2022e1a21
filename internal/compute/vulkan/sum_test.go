package vulkan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestAddJoins: an Add after a product in the same segment has the bytes of an Add in its own segment. The product's
// output stays. An Add that cannot join a product still works.
func TestAddJoins(t *testing.T) {
	const cols, ff = 96, 64
	on(t, nil, func(d *Device) {
		rng := rand.New(rand.NewPCG(6, 0))
		matrix := func(typ quant.Type, rows, cols int, use compute.Use) *compute.Matrix {
			m, err := d.Matrix(encoded(rng, typ, rows, cols), use)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		table, other := matrix(quant.F32, 20, cols, compute.Lookup), matrix(quant.F32, 20, cols, compute.Lookup)
		w := matrix(quant.Q4_0, cols, cols, compute.Dense)
		layer := compute.SparseWeights{Up: matrix(quant.F16, ff, cols, compute.Rows), Down: matrix(quant.F16, ff, cols, compute.Rows), Act: compute.Activation{Kind: compute.ReLU}}
		for _, n := range []int{1, 3, 12} {
			tensor := func() compute.Tensor {
				x, err := d.Tensor(n, cols)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			x, y, total := tensor(), tensor(), tensor()
			p := compute.Params{}
			for i := range n {
				p.Tokens = append(p.Tokens, int32(i))
			}
			for what, verbs := range map[string][]func(v compute.Verbs){
				"MatMul": {
					func(v compute.Verbs) { v.MatMul(x, compute.Products{{Out: y, W: w}}) },
					func(v compute.Verbs) { v.Add(total, y) },
				},
				"SparseFFN": {
					func(v compute.Verbs) { v.SparseFFN(y, x, compute.Set{Rows: n, N: ff}, layer) },
					func(v compute.Verbs) { v.Add(total, y) },
				},
				"two sums": {
					func(v compute.Verbs) { v.MatMul(x, compute.Products{{Out: y, W: w}}) },
					func(v compute.Verbs) { v.Add(total, y) },
					func(v compute.Verbs) { v.Add(total, x) },
				},
				"twice the product": {
					func(v compute.Verbs) { v.MatMul(x, compute.Products{{Out: total, W: w}}) },
					func(v compute.Verbs) { v.Add(total, total) },
				},
				"to what is multiplied": {
					func(v compute.Verbs) { v.SparseFFN(y, total, compute.Set{Rows: n, N: ff}, layer) },
					func(v compute.Verbs) { v.Add(total, y) },
					func(v compute.Verbs) { v.MatMul(total, compute.Products{{Out: y, W: w}}) },
				},
			} {
				run := func(name string, body func(v compute.Verbs)) {
					if err := d.Run(compute.Segment{Name: fmt.Sprint(name, what, n), Rows: n}, &p, body); err != nil {
						t.Fatal(err)
					}
				}
				begin := func(v compute.Verbs) { v.Embed(x, table); v.Embed(total, other) }
				rows := func() (all []float32) {
					for i := range n {
						all = append(all, readable(d.Read(total, i))...)
						all = append(all, readable(d.Read(y, i))...)
					}
					return all
				}
				run("begin", begin)
				for i, v := range verbs {
					run(fmt.Sprint(i), v)
				}
				want := rows()
				run("together", func(v compute.Verbs) {
					begin(v)
					for _, verb := range verbs {
						verb(v)
					}
				})
				sameBits(t, fmt.Sprintf("%s, %d tokens", what, n), rows(), want)
			}
		}
	})
}
