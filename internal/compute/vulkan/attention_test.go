package vulkan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// conversation is a cache that fills up, and one head shape.
type conversation struct {
	dim, kvHeads, heads int
	steps               []int // tokens of each step
	stored              int   // the first steps, which only fill the cache
}

// play stores and attends, step after step, and returns all outputs. Steps of the same shape are one segment.
func (c conversation) play(t *testing.T, dev compute.Device) (outputs [][]float32) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(3, uint64(c.dim)))
	longest := 0
	for _, n := range c.steps {
		longest = max(longest, n)
	}
	cache, err := dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: c.kvHeads, Key: c.dim, Value: c.dim}}, Pages: 11})
	must(err)
	tensor := func(cols int) compute.Tensor {
		x, err := dev.Tensor(longest, cols)
		must(err)
		return x
	}
	embed := func(cols int) *compute.Matrix {
		m, err := dev.Matrix(encoded(rng, quant.F32, 100, cols), compute.Lookup)
		must(err)
		return m
	}
	width, kvWidth := c.heads*c.dim, c.kvHeads*c.dim
	queries, keys, values := embed(width), embed(kvWidth), embed(kvWidth)
	q, k, v, out := tensor(width), tensor(kvWidth), tensor(kvWidth), tensor(width)
	at := 0
	for step, n := range c.steps {
		attends := step >= c.stored
		p := compute.Params{Pages: [][]int32{{3, 0, 9, 10, 1, 8, 2, 7, 4, 6, 5}}, Seq: make([]int32, n)}
		for i := range n {
			p.Tokens = append(p.Tokens, int32((at+i)*37%100))
			p.Pos = append(p.Pos, int32(at+i))
		}
		at += n
		must(dev.Run(compute.Segment{Name: fmt.Sprint(c.dim, c.heads), Rows: n}, &p, func(verbs compute.Verbs) {
			verbs.Embed(q.First(n), queries)
			verbs.Embed(k.First(n), keys)
			verbs.Embed(v.First(n), values)
			verbs.StoreKV(cache, 0, k.First(n), v.First(n))
			if attends {
				verbs.Attend(out.First(n), q.First(n), cache, 0, compute.Attention{Scale: float32(1 / math.Sqrt(float64(c.dim)))})
			}
		}))
		if !attends {
			continue
		}
		for i := range n {
			outputs = append(outputs, append([]float32(nil), readable(dev.Read(out, i))...))
		}
	}
	return outputs
}

// TestHeads: heads of all sizes and groups, in a recording that is replayed while the cache grows over several splits,
// and in prompts.
func TestHeads(t *testing.T) {
	testenv.Thorough(t)
	const tolerance = 2e-5                                    // relative to a row's largest element: float32 scores and sums over halves
	two := []int{1, 1, 9, 240, 1, 1, 1, 1, 1, 1, 1, 2, 30, 1} // the cache grows over the first split
	three := append(slices.Clone(two), 225, 1, 1)
	on(t, nil, func(d *Device) {
		for _, c := range testenv.Some(t, 4, []conversation{
			{8, 2, 4, three, 0},
			{512, 1, 1, two, 0},
			{64, 1, 11, two, 0},
			{8, 256, 256, []int{252, 8, 8}, 1}, // a workgroup has several splits
			{256, 1, 2, two, 0},
		}) {
			want := c.play(t, ref.New())
			for i, got := range c.play(t, d) {
				top := 0.0
				for _, v := range want[i] {
					top = max(top, math.Abs(float64(v)))
				}
				for j, v := range want[i] {
					if e := math.Abs(float64(got[j] - v)); !(e <= tolerance*top) {
						t.Fatalf("%d heads of %d: position %d element %d is %g, want %g", c.heads, c.dim, i, j, got[j], v)
					}
				}
			}
			d.reset()
		}
		const wide = 16 << 10 // takes more shared memory than any GPU has
		cache, err := d.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: wide, Value: wide}}, Pages: 1})
		if err != nil {
			t.Fatal(err)
		}
		x, err := d.Tensor(1, wide)
		if err != nil {
			t.Fatal(err)
		}
		p := compute.Params{Tokens: []int32{0}, Pos: []int32{0}, Seq: []int32{0}, Pages: [][]int32{{0}}}
		if err := d.Run(compute.Segment{Name: "wide", Rows: 1}, &p, func(v compute.Verbs) { v.Attend(x, x, cache, 0, compute.Attention{Scale: 1}) }); err == nil {
			t.Errorf("heads of %d elements are attended with", wide)
		}
	})
}
