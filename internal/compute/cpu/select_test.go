package cpu_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestSelectAll: attention to all blocks, because there are no more than may be chosen, has the bytes of attention that
// nothing limits.
func TestSelectAll(t *testing.T) {
	const n, kv, group, dim, seed = 150, 2, 3, 64, 11
	dev := opens("", 2, 2)(t)
	defer dev.Close()
	rng := rand.New(rand.NewPCG(seed, 0))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tensor := func(cols int) compute.Tensor {
		x, err := dev.Tensor(n, cols)
		must(err)
		return x
	}
	table := func(cols int) *compute.Matrix {
		x := make([]float32, n*cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		data := make([]byte, 4*len(x))
		quant.Encode(quant.F32, data, x)
		m, err := dev.Matrix(compute.Source{Name: "table", Type: quant.F32, Rows: n, Cols: cols, Data: data, Pinned: true}, compute.Lookup)
		must(err)
		return m
	}
	queries, keys, values, indices := table(kv*group*dim), table(kv*dim), table(kv*dim), table(dim)
	c, err := dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: kv, Key: dim, Value: dim}, {Heads: 1, Key: dim, Value: dim, Within: true}}, Pages: 3})
	must(err)
	for _, how := range []compute.Selection{{Groups: 1, Block: 1, Top: n}, {Groups: 2, Block: 16, Top: 10, Local: 1}, {Groups: 1, Block: 4, Top: 40, Ends: true, Open: true}} {
		q, k, v, index, all, some, blocks := tensor(kv*group*dim), tensor(kv*dim), tensor(kv*dim), tensor(dim), tensor(kv*group*dim), tensor(kv*group*dim), tensor(how.Groups*how.Row())
		for _, step := range [][2]int{{0, n - 1}, {n - 1, n}} { // a prompt, and a token
			rows := step[1] - step[0]
			p := compute.Params{Pages: [][]int32{{2, 0, 1}}, Seq: make([]int32, rows)}
			for pos := step[0]; pos < step[1]; pos++ {
				p.Tokens, p.Pos = append(p.Tokens, int32(pos)), append(p.Pos, int32(pos))
			}
			must(dev.Run(compute.Segment{Name: "select", Rows: rows}, &p, func(verbs compute.Verbs) {
				q, k, v, index, all, some, blocks := q.First(rows), k.First(rows), v.First(rows), index.First(rows), all.First(rows), some.First(rows), blocks.First(rows)
				verbs.Embed(q, queries)
				verbs.Embed(k, keys)
				verbs.Embed(v, values)
				verbs.Embed(index, indices)
				verbs.StoreKV(c, 0, k, v)
				verbs.StoreKV(c, 1, index, compute.Tensor{})
				verbs.Select(compute.Select{Blocks: blocks, Q: k, Cache: c, Layer: 1, How: how})
				verbs.Attend(all, q, c, 0, compute.Attention{Scale: 0.125})
				verbs.Attend(some, q, c, 0, compute.Attention{Scale: 0.125, Seen: how.Seen(blocks)})
			}))
			for i := range rows {
				want, err := dev.Read(all, i)
				must(err)
				want = slices.Clone(want)
				got, err := dev.Read(some, i)
				must(err)
				if !slices.Equal(got, want) {
					t.Fatalf("%+v: position %d differs (seed %d)", how, step[0]+i, seed)
				}
			}
		}
	}
}
