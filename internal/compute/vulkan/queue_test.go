package vulkan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestFusions: operations of one segment, which are recorded together where a fusion takes them, leave the same in every
// tensor and in the cache as each in a segment of its own, and the same bytes for any number of tokens. Norms of heads are
// sums in another order there, and norms between products are rounded to eight bits before they are divided by the root.
// The columns are no multiple of a workgroup's, so some invocations have no elements.
func TestFusions(t *testing.T) {
	testenv.Thorough(t)
	const cols, ff, heads, kvHeads, head, experts, used = 768, 96, 6, 2, 64, 4, 2
	type setting struct {
		x, y, h, gate, up, q, k, v, logits compute.Tensor
		choice                             compute.Choice
		cache                              *compute.Cache
	}
	type verb = func(v compute.Verbs, s *setting)
	on(t, nil, func(d *Device) {
		rng := rand.New(rand.NewPCG(7, 0))
		matrix := func(typ quant.Type, rows, cols int, use compute.Use) *compute.Matrix {
			m, err := d.Matrix(encoded(rng, typ, rows, cols), use)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		vector := func(n int) *compute.Vector {
			v, err := d.Vector(encoded(rng, quant.F32, 1, n))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		norm, bias, wide, each, ofQ := vector(cols), vector(cols), vector(heads*head), vector(head), vector(heads*head)
		tables := map[int]*compute.Matrix{}
		for _, n := range []int{cols, ff, heads * head, kvHeads * head, experts} {
			tables[n] = matrix(quant.F32, 20, n, compute.Lookup)
		}
		gates, ups := map[quant.Type]*compute.Matrix{}, map[quant.Type]*compute.Matrix{}
		for _, typ := range []quant.Type{quant.Q4_0, quant.Q6_K, quant.F16} {
			gates[typ], ups[typ] = matrix(typ, ff, cols, compute.Dense), matrix(typ, ff, cols, compute.Dense)
		}
		down, other := matrix(quant.Q4_0, cols, ff, compute.Dense), matrix(quant.Q6_K, kvHeads*head, cols, compute.Dense)
		ofGate, ofUp := vector(ff), vector(ff)
		ofExperts := func(typ quant.Type, rows, cols int) *compute.Matrix {
			return matrix(typ, experts*rows, cols, compute.Dense)
		}
		mixture := func(typ quant.Type) compute.ExpertWeights {
			return compute.ExpertWeights{Gate: ofExperts(typ, ff, cols), Up: ofExperts(typ, ff, cols), Down: ofExperts(quant.Q4_0, cols, ff), Act: compute.Activation{Kind: compute.SiLU}}
		}
		ungated := compute.ExpertWeights{
			Up: ofExperts(quant.Q8_0, ff, cols), UpBias: vector(experts * ff), Down: ofExperts(quant.F16, cols, ff), DownBias: vector(experts * cols),
			Before: true, Act: compute.Activation{Kind: compute.ReLU2},
		}
		ofLayer := func(w compute.ExpertWeights, rest ...verb) []verb {
			return append([]verb{
				func(v compute.Verbs, s *setting) {
					v.Route(s.choice, s.logits, nil, nil, compute.Routing{Score: compute.Softmax, Scale: 1})
				},
				func(v compute.Verbs, s *setting) { v.Experts(s.y, s.h, s.choice, w) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.h, s.x, norm, 1e-5) },
			}, rest...)
		}
		rope := &compute.Rope{Style: compute.Halves, First: 8, Dims: 32, Scale: 1}
		for i := range rope.Dims / 2 {
			rope.Freqs = append(rope.Freqs, 1/float64(i+1))
		}
		silu := compute.Activation{Kind: compute.SiLU}
		gated := func(typ quant.Type, act compute.Activation, gateBias, upBias *compute.Vector) []verb {
			return []verb{
				func(v compute.Verbs, s *setting) {
					v.MatMul(s.x, compute.Products{{Out: s.gate, W: gates[typ], Bias: gateBias}, {Out: s.up, W: ups[typ], Bias: upBias}})
				},
				func(v compute.Verbs, s *setting) { v.Activate(s.gate, s.gate, s.up, act) },
			}
		}
		cases := []struct {
			name  string
			apart bool // rounding may differ
			verbs []verb
		}{
			{"gated Q4_0", false, gated(quant.Q4_0, silu, nil, nil)},
			{"gated Q6_K with biases", false, gated(quant.Q6_K, compute.Activation{Kind: compute.GELU}, ofGate, ofUp)},
			{"gated F16, clamped", false, gated(quant.F16, compute.Activation{Kind: compute.ClampedSwiGLU, Slope: 1.7, Limit: 7}, nil, ofUp)},
			{"no gate", false, []verb{
				func(v compute.Verbs, s *setting) {
					v.MatMul(s.x, compute.Products{{Out: s.up, W: ups[quant.Q4_0], Bias: ofUp}})
				},
				func(v compute.Verbs, s *setting) {
					v.Activate(s.up, s.up, compute.Tensor{}, compute.Activation{Kind: compute.ReLU2})
				},
			}},
			{"the other's gate", false, []verb{
				func(v compute.Verbs, s *setting) {
					v.MatMul(s.x, compute.Products{{Out: s.gate, W: gates[quant.Q4_0]}, {Out: s.up, W: ups[quant.Q4_0]}})
				},
				func(v compute.Verbs, s *setting) { v.Activate(s.up, s.up, s.gate, silu) },
			}},
			{"a norm between products", true, []verb{
				func(v compute.Verbs, s *setting) {
					v.MatMul(s.gate, compute.Products{{Out: s.y, W: down, Bias: bias}})
				},
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.h, s.x, norm, 1e-5) },
				func(v compute.Verbs, s *setting) {
					v.MatMul(s.h, compute.Products{{Out: s.gate, W: gates[quant.Q4_0]}, {Out: s.up, W: ups[quant.Q4_0], Bias: ofUp}})
				},
				func(v compute.Verbs, s *setting) { v.Activate(s.gate, s.gate, s.up, silu) },
				func(v compute.Verbs, s *setting) { v.MatMul(s.h, compute.Products{{Out: s.k, W: other}}) },
			}},
			{"a norm between products without activation", true, []verb{
				func(v compute.Verbs, s *setting) { v.MatMul(s.gate, compute.Products{{Out: s.y, W: down}}) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.y, s.x, norm, 1e-5) },
				func(v compute.Verbs, s *setting) {
					v.MatMul(s.y, compute.Products{{Out: s.up, W: ups[quant.Q4_0]}, {Out: s.k, W: other}, {Out: s.v, W: other}})
				},
			}},
			{"experts before products", true, ofLayer(mixture(quant.Q4_0), func(v compute.Verbs, s *setting) {
				v.MatMul(s.h, compute.Products{{Out: s.k, W: other}, {Out: s.v, W: other}})
			})},
			{"experts of another type, without products", false, ofLayer(mixture(quant.F16))},
			{"experts without gates", true, ofLayer(ungated, func(v compute.Verbs, s *setting) { v.MatMul(s.h, compute.Products{{Out: s.k, W: other}}) })},
			{"norms around a sum", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.y, s.y, norm, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.LayerNorm(s.h, s.x, norm, bias, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Multiply(s.h, s.h, bias) },
			}},
			{"a scaled sum", false, []verb{
				func(v compute.Verbs, s *setting) { v.Scale(s.y, 0.3) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.h, s.x, norm, 1e-5) },
			}},
			{"a gated, normed and shifted sum", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.y, s.y, norm, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.LayerNorm(s.h, s.x, norm, bias, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Shift(s.h, norm) },
				func(v compute.Verbs, s *setting) { v.MatMul(s.h, compute.Products{{Out: s.k, W: other}}) },
			}},
			{"two biased norms", false, []verb{
				func(v compute.Verbs, s *setting) { v.LayerNorm(s.h, s.x, norm, bias, 1e-5) },
				func(v compute.Verbs, s *setting) { v.LayerNorm(s.h, s.h, bias, norm, 1e-5) },
			}},
			{"a norm of groups, each with weights of its own", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.q.Split(head), s.q.Split(head), each, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Multiply(s.q, s.q, ofQ) },
				func(v compute.Verbs, s *setting) { v.Scale(s.q, 0.5) },
			}},
			{"gated rows", true, []verb{
				func(v compute.Verbs, s *setting) {
					v.GateRows(s.gate.Split(1), s.up.Split(1))
				},
				func(v compute.Verbs, s *setting) {
					v.GateRowsBy(s.x, compute.Tensor{Rows: s.x.Rows, Cols: 1, Mem: s.up.Mem}, compute.Softplus)
				},
				func(v compute.Verbs, s *setting) { v.MatMul(s.x, compute.Products{{Out: s.k, W: other}}) },
			}},
			{"copies to different columns, and to the same", false, []verb{
				func(v compute.Verbs, s *setting) {
					v.CopyColumns(s.x, s.q, compute.Ranges{Step: 128}, compute.Ranges{Step: 64}, 64, 6)
				},
				func(v compute.Verbs, s *setting) {
					v.CopyColumns(s.x, s.k, compute.Ranges{First: 64, Step: 128}, compute.Ranges{}, 30, 6)
				},
				func(v compute.Verbs, s *setting) {
					v.CopyColumns(s.x, s.v, compute.Ranges{First: 94}, compute.Ranges{First: 3}, 34, 1)
				},
				func(v compute.Verbs, s *setting) {
					v.CopyColumns(s.x, s.v, compute.Ranges{First: 60}, compute.Ranges{First: 9}, 34, 1)
				},
			}},
			{"all columns are copied", false, []verb{
				func(v compute.Verbs, s *setting) {
					v.CopyColumns(s.y, s.x, compute.Ranges{Step: 64}, compute.Ranges{Step: 64}, 64, 12)
				},
				func(v compute.Verbs, s *setting) { v.MatMul(s.y, compute.Products{{Out: s.k, W: other}}) },
			}},
			{"a wide norm before a product, beside heads", true, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.x, s.x, norm, 1e-5) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.k.Split(head), s.k.Split(head), each, 1e-5) },
				func(v compute.Verbs, s *setting) { v.RoPE(s.k, head, rope) },
				func(v compute.Verbs, s *setting) { v.MatMul(s.x, compute.Products{{Out: s.v, W: other}}) },
			}},
			{"two sums", false, []verb{
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.y) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.h) },
				func(v compute.Verbs, s *setting) { v.LayerNorm(s.x, s.x, norm, nil, 1e-5) },
			}},
			{"sums of what was written", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.h, s.x, norm, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Add(s.x, s.h) },
				func(v compute.Verbs, s *setting) { v.Add(s.h, s.x) },
				func(v compute.Verbs, s *setting) { v.Add(s.h, s.h) },
			}},
			{"two norms of the same", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.h, s.x, norm, 1e-5) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.y, s.x, bias, 1e-5) },
			}},
			{"a norm of heads before their gates", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.k.Split(head), s.k.Split(head), each, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Activate(s.v, s.v, s.k, silu) },
			}},
			{"a norm before gates", false, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.y, s.y, norm, 1e-5) },
				func(v compute.Verbs, s *setting) {
					v.Activate(s.h, s.h, s.y, compute.Activation{Kind: compute.Logistic})
				},
				func(v compute.Verbs, s *setting) { v.MatMul(s.h, compute.Products{{Out: s.k, W: other}}) },
			}},
			{"heads", false, []verb{
				func(v compute.Verbs, s *setting) { v.Clamp(s.q, -1, 1) },
				func(v compute.Verbs, s *setting) { v.Clamp(s.k, -1, 1) },
				func(v compute.Verbs, s *setting) { v.Clamp(s.v, -1, 1) },
				func(v compute.Verbs, s *setting) { v.RoPE(s.q, head, rope) },
				func(v compute.Verbs, s *setting) { v.RoPE(s.k, head, rope) },
				func(v compute.Verbs, s *setting) { v.StoreKV(s.cache, 0, s.k, s.v) },
			}},
			{"normed heads", true, []verb{
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.q.Split(head), s.q.Split(head), each, 1e-5) },
				func(v compute.Verbs, s *setting) { v.Multiply(s.q, s.q, ofQ) },
				func(v compute.Verbs, s *setting) { v.RoPE(s.q, head, rope) },
				func(v compute.Verbs, s *setting) { v.LayerNorm(s.k.Split(head), s.k.Split(head), each, nil, 1e-5) },
				func(v compute.Verbs, s *setting) { v.RoPE(s.k, head, rope) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.v.Split(head), s.v.Split(head), each, 1e-5) },
				func(v compute.Verbs, s *setting) { v.StoreKV(s.cache, 0, s.k, s.v) },
			}},
			{"rotated before a wide norm", true, []verb{
				func(v compute.Verbs, s *setting) { v.RoPE(s.q, head, rope) },
				func(v compute.Verbs, s *setting) { v.RMSNorm(s.q, s.q, wide, 1e-5) },
				func(v compute.Verbs, s *setting) { v.RoPE(s.k, head, rope) },
				func(v compute.Verbs, s *setting) { v.StoreKV(s.cache, 0, s.k, compute.Tensor{}) },
			}},
		}
		alone := map[string][]float32{} // logits of fewer tokens
		for _, of := range []struct {
			n     int
			turns bool // false: by workgroups of GPUs
		}{{1, true}, {3, true}, {12, true}, {1, false}, {8, false}} {
			n := of.n
			d.turns = of.turns
			p := compute.Params{Decode: n, Seq: make([]int32, n), Pages: [][]int32{{1}}}
			for i := range n {
				p.Tokens, p.Pos = append(p.Tokens, int32(i)), append(p.Pos, int32(2*i))
			}
			for _, c := range cases {
				play := func(together bool) (all []float32, page []byte) {
					s := setting{
						x: tensorOf(t, d, n, cols), y: tensorOf(t, d, n, cols), h: tensorOf(t, d, n, cols), gate: tensorOf(t, d, n, ff), up: tensorOf(t, d, n, ff),
						q: tensorOf(t, d, n, heads*head), k: tensorOf(t, d, n, kvHeads*head), v: tensorOf(t, d, n, kvHeads*head), logits: tensorOf(t, d, n, experts),
					}
					var err error
					if s.choice, err = d.Choice(n, used, experts); err != nil {
						t.Fatal(err)
					}
					if s.cache, err = d.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: kvHeads, Key: head, Value: head, ValueType: compute.KVQ8_0}}, Pages: 2}); err != nil {
						t.Fatal(err)
					}
					tensors := []compute.Tensor{s.x, s.y, s.h, s.gate, s.up, s.q, s.k, s.v, s.logits}
					run := func(name string, body func(v compute.Verbs)) {
						if err := d.Run(compute.Segment{Name: fmt.Sprint(name, c.name, n, together, d.turns), Rows: n, Decode: n}, &p, body); err != nil {
							t.Fatal(err)
						}
					}
					run("begin", func(v compute.Verbs) {
						for i, x := range tensors {
							v.Embed(x, tables[x.Cols])
							v.Scale(x, float32(i+1))
						}
					})
					if together {
						run("all", func(v compute.Verbs) {
							for _, f := range c.verbs {
								f(v, &s)
							}
						})
					} else {
						for i, f := range c.verbs {
							run(fmt.Sprint(i), func(v compute.Verbs) { f(v, &s) })
						}
					}
					for i := range n {
						for _, x := range tensors {
							all = append(all, readable(d.Read(x, i))...)
						}
					}
					pages := [][]byte{make([]byte, s.cache.Layers[0].PageBytes())}
					if err := d.ReadPage(s.cache, compute.EveryLayer(1), pages); err != nil {
						t.Fatal(err)
					}
					return all, pages[0]
				}
				want, wantPage := play(false)
				got, gotPage := play(true)
				what := fmt.Sprintf("%s, %d tokens", c.name, n)
				common := min(len(got), len(alone[c.name]))
				sameBits(t, what+", the first tokens alone", got[:common], alone[c.name][:common])
				alone[c.name] = got
				if c.apart { // eight bits may round another way
					if err := closeTo(got, want, 1e-5); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					continue
				}
				sameBits(t, what, got, want)
				if !slices.Equal(gotPage, wantPage) {
					t.Errorf("%s: the cache is another", what)
				}
			}
		}
	})
}
