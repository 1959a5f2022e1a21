package vulkan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPackedForms: a product of what another verb of the same segment left in eight bits has the bytes of one that
// packs for itself, and what was written since is packed anew.
func TestPackedForms(t *testing.T) {
	testenv.Thorough(t)
	const cols, rows, headDim = 160, 24, 32
	on(t, nil, func(d *Device) {
		rng := rand.New(rand.NewPCG(5, 0))
		matrix := func(typ quant.Type, rows, cols int, use compute.Use) *compute.Matrix {
			m, err := d.Matrix(encoded(rng, typ, rows, cols), use)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		vector := func() *compute.Vector {
			v, err := d.Vector(encoded(rng, quant.F32, 1, cols))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		w := matrix(quant.Q8_0, rows, cols, compute.Dense)
		norm, bias := vector(), vector()
		tables := []*compute.Matrix{matrix(quant.F32, 20, cols, compute.Lookup), matrix(quant.F32, 20, cols, compute.Lookup)}
		for _, n := range []int{1, 5, 12} {
			tensor := func(cols int) compute.Tensor {
				x, err := d.Tensor(n, cols)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			x, y, h := tensor(cols), tensor(cols), tensor(cols)
			together, alone := tensor(rows), tensor(rows)
			cache, err := d.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: cols / headDim, Key: headDim, Value: headDim}}, Pages: 1})
			if err != nil {
				t.Fatal(err)
			}
			p := compute.Params{Seq: make([]int32, n), Pages: [][]int32{{0}}}
			for i := range n {
				p.Tokens, p.Pos = append(p.Tokens, int32(i)), append(p.Pos, int32(i))
			}
			for what, verb := range map[string]func(v compute.Verbs){
				"RMSNorm":   func(v compute.Verbs) { v.RMSNorm(h, x, norm, 1e-5) },
				"LayerNorm": func(v compute.Verbs) { v.LayerNorm(h, x, norm, bias, 1e-5) },
				"Activate":  func(v compute.Verbs) { v.Activate(h, x, y, compute.Activation{Kind: compute.SiLU}) },
				"Attention": func(v compute.Verbs) {
					v.StoreKV(cache, 0, x, y)
					v.Attend(h, x, cache, 0, compute.Attention{Scale: 1})
				},
				"Add": func(v compute.Verbs) { v.RMSNorm(h, x, norm, 1e-5); v.Add(h, y) },
				"another product between": func(v compute.Verbs) {
					v.Embed(h, tables[1])
					v.MatMul(h, compute.Products{{Out: alone, W: w}})
					v.MatMul(x, compute.Products{{Out: alone, W: w}})
				},
				"two products": func(v compute.Verbs) {
					v.RMSNorm(h, x, norm, 1e-5)
					v.MatMul(h, compute.Products{{Out: alone, W: w}})
				},
			} {
				run := func(name string, body func(v compute.Verbs)) {
					if err := d.Run(compute.Segment{Name: fmt.Sprint(name, what, n), Rows: n}, &p, body); err != nil {
						t.Fatal(err)
					}
				}
				run("together", func(v compute.Verbs) {
					v.Embed(x, tables[0])
					v.Embed(y, tables[1])
					verb(v)
					v.MatMul(h, compute.Products{{Out: together, W: w}})
				})
				run("alone", func(v compute.Verbs) { v.MatMul(h, compute.Products{{Out: alone, W: w}}) })
				for i := range n {
					got := append([]float32(nil), readable(d.Read(together, i))...)
					name, want := fmt.Sprintf("%s, %d tokens, row %d", what, n, i), readable(d.Read(alone, i))
					if what != "RMSNorm" && what != "two products" {
						sameBits(t, name, got, want)
					} else if err := closeTo(got, want, 1e-5); err != nil { // it is rounded before it is divided by the root
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
	})
}
