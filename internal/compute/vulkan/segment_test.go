package vulkan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

const replayCols = 24

// playground is a device with the operands of these tests' bodies.
type playground struct {
	compute.Device
	table, places *compute.Matrix // [9, cols], [40, cols]
	x, y, k, out  compute.Tensor  // [4, cols]
	cache         *compute.Cache
	rope          compute.Rope
	bodies        int // how often one was run
}

func ground(t *testing.T, d compute.Device) *playground {
	t.Helper()
	g := &playground{Device: d, rope: compute.Rope{Style: compute.Halves, Dims: 6, Freqs: []float64{1, 0.1, 0.01}, Scale: 1}}
	table := func(rows int) *compute.Matrix {
		values := make([]float32, rows*replayCols)
		for i := range values {
			values[i] = float32(i%37) - float32(i/replayCols)/8
		}
		data := make([]byte, 4*len(values))
		quant.Encode(quant.F32, data, values)
		m, err := d.Matrix(compute.Source{Name: "table", Type: quant.F32, Rows: rows, Cols: replayCols, Data: data}, compute.Lookup)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	g.table, g.places = table(9), table(600)
	for _, x := range []*compute.Tensor{&g.x, &g.y, &g.k, &g.out} {
		var err error
		if *x, err = d.Tensor(4, replayCols); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if g.cache, err = d.Cache(compute.CacheSpec{Layers: slices.Repeat([]compute.KVShape{{Heads: 2, Key: replayCols / 2, Value: replayCols / 2}}, 2), Pages: 200}); err != nil {
		t.Fatal(err)
	}
	return g
}

// step returns a small forward pass of everything that depends on params.
func (g *playground) step(name string, p *compute.Params) ([]float32, error) {
	n, nOut := len(p.Tokens), len(p.Out)
	err := g.Run(compute.Segment{Name: name, Rows: n, Out: nOut}, p, func(v compute.Verbs) {
		g.bodies++
		v.Embed(g.x.First(n), g.table)
		v.AddPosition(g.x.First(n), g.places, 1)
		v.Embed(g.k.First(n), g.table)
		v.RoPE(g.k.First(n), replayCols/2, &g.rope)
		v.StoreKV(g.cache, 1, g.k.First(n), g.x.First(n))
		v.Attend(g.y.First(n), g.x.First(n), g.cache, 1, compute.Attention{Scale: 0.01})
		v.Gather(g.out.First(nOut), g.y.First(n))
	})
	if err != nil {
		return nil, err
	}
	var all []float32
	for i := range nOut {
		all = append(all, slices.Clone(readable(g.Read(g.out, i)))...)
	}
	return all, nil
}

// pagesFrom are n pages that begin at a page and go round.
func pagesFrom(first, n int) (pages []int32) {
	for i := range n {
		pages = append(pages, int32((first+7*i)%200))
	}
	return pages
}

// replayTolerance is the share of the largest number that float32 attention over halves may cost.
const replayTolerance = 1e-4

// TestReplay: a body runs once for each shape, and once more when it is known what the host reads after it; other
// shapes know that from then on. Its recording follows the params: tokens, positions, sequences, pages, rows of logits.
func TestReplay(t *testing.T) {
	d := lent(t)
	here, there := ground(t, d), ground(t, ref.New())
	for i, c := range []struct {
		tokens, pos, seq, out []int32
		pages                 [][]int32
		bodies                int // run so far
	}{
		{[]int32{3}, []int32{0}, []int32{0}, []int32{0}, [][]int32{pagesFrom(0, 1)}, 1},
		{[]int32{8}, []int32{1}, []int32{0}, []int32{0}, [][]int32{pagesFrom(0, 1)}, 2},
		{[]int32{5, 1, 2}, []int32{2, 3, 4}, []int32{0, 0, 0}, []int32{2}, [][]int32{pagesFrom(0, 1)}, 3},
		{[]int32{4}, []int32{0}, []int32{1}, []int32{0}, [][]int32{pagesFrom(0, 1), pagesFrom(9, 1)}, 3},
		{[]int32{0, 7, 3}, []int32{5, 1, 2}, []int32{0, 1, 1}, []int32{1}, [][]int32{pagesFrom(0, 2), pagesFrom(9, 3)}, 3},
		{[]int32{2, 2, 5}, []int32{6, 3, 4}, []int32{0, 1, 1}, []int32{0}, [][]int32{pagesFrom(0, 2), pagesFrom(9, 3)}, 3},
		{[]int32{6}, []int32{7}, []int32{0}, []int32{0}, [][]int32{pagesFrom(0, 90), pagesFrom(9, 80)}, 4}, // tables outgrow the recording
		{[]int32{2}, []int32{8}, []int32{0}, []int32{0}, [][]int32{pagesFrom(0, 90), pagesFrom(9, 90)}, 4},
	} {
		p := &compute.Params{Tokens: c.tokens, Pos: c.pos, Seq: c.seq, Out: c.out, Pages: c.pages}
		got, err := here.step("step", p)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		want, err := there.step("step", p)
		if err != nil {
			t.Fatal(err)
		}
		if err := closeTo(got, want, replayTolerance); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		if here.bodies != c.bodies {
			t.Errorf("step %d: %d bodies were run, want %d", i, here.bodies, c.bodies)
		}
	}
	p := &compute.Params{Tokens: []int32{2}, Pos: []int32{9}, Seq: []int32{0}, Out: []int32{0}, Pages: [][]int32{pagesFrom(0, 90)}}
	before := d.gpu.Last
	if _, err := here.step("step", p); err != nil {
		t.Fatal(err)
	}
	if n := d.gpu.Last - before; n != 1 {
		t.Errorf("a step and its result took %d submissions", n)
	}
}

// TestWrongParams: params that would read elsewhere give an error that names the fault, and the next step works.
func TestWrongParams(t *testing.T) {
	d := lent(t)
	g := ground(t, d)
	good := func() *compute.Params {
		return &compute.Params{Tokens: []int32{1, 2}, Pos: []int32{3, 4}, Seq: []int32{0, 0}, Out: []int32{1}, Pages: [][]int32{{5}}}
	}
	want, err := g.step("step", good())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spoil func(p *compute.Params)
		fault string
	}{
		{func(p *compute.Params) { p.Tokens[1] = 9 }, "token 9 of 9"},
		{func(p *compute.Params) { p.Tokens[0] = -1 }, "token -1 of 9"},
		{func(p *compute.Params) { p.Pos[0] = 599 }, "position 599 of 599"},
		{func(p *compute.Params) { p.Pos = p.Pos[:1] }, "position"},
		{func(p *compute.Params) { p.Pos[1] = 64 }, "no page"},
		{func(p *compute.Params) { p.Seq[1] = 1 }, "sequence 1 of 1"},
		{func(p *compute.Params) { p.Pages[0][0] = 200 }, "page 200 of 200"},
		{func(p *compute.Params) { p.Out[0] = 2 }, "row of logits 2 of 2"},
	} {
		p := good()
		c.spoil(p)
		if _, err := g.step("step", p); err == nil || !strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), `"step"`) {
			t.Errorf("error %v, want one with %q", err, c.fault)
		}
		if got, err := g.step("step", good()); err != nil || !slices.Equal(got, want) {
			t.Errorf("after %q: %v, %v", c.fault, err, got)
		}
	}
}

// TestManyShapes: recordings that were not used for long make room for others, and come back when they are needed.
func TestManyShapes(t *testing.T) {
	d := lent(t)
	x, y := tensorOf(t, d, 4, 10), tensorOf(t, d, 4, 10)
	bodies := 0
	step := func(name string) {
		if err := d.Run(compute.Segment{Name: name, Rows: 4}, &compute.Params{}, func(v compute.Verbs) { bodies++; v.Add(x, y) }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * maxSegments {
		step(fmt.Sprint(i))
		step("often")
	}
	if len(d.segments) > maxSegments {
		t.Errorf("%d recordings are kept", len(d.segments))
	}
	if want := 3*maxSegments + 1; bodies != want {
		t.Errorf("%d bodies were run, want %d", bodies, want)
	}
	if step("0"); bodies != 3*maxSegments+2 {
		t.Error("the first shape, forgotten, was not recorded again")
	}
}

// TestHost: a body with an observer runs at every step, with the step's own function, and its inputs reach what follows
// the observer.
func TestHost(t *testing.T) {
	d := lent(t)
	g := ground(t, d)
	for i := range int32(4) {
		seen := float32(math.NaN())
		p := &compute.Params{Tokens: []int32{i + 1}, Pos: []int32{i}}
		err := d.Run(compute.Segment{Name: "observed", Rows: 1}, p, func(v compute.Verbs) {
			v.Embed(g.x.First(1), g.table)
			v.Host(func() error { seen = readable(d.Read(g.x, 0))[2]; return nil })
			v.AddPosition(g.x.First(1), g.places, 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		element := func(row int32) float32 { return float32((row*replayCols+2)%37) - float32(row)/8 }
		if seen != element(i+1) {
			t.Errorf("step %d: the observer saw %g, want %g", i, seen, element(i+1))
		}
		if got, want := readable(d.Read(g.x, 0))[2], element(i+1)+element(i); got != want {
			t.Errorf("step %d: in the end %g, want %g", i, got, want)
		}
	}
	if len(d.segments) != 0 {
		t.Error("a body with an observer was kept")
	}
}
