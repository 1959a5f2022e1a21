package vulkan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// What hybrid asks of the executor of a GPU that it runs.
var _ hybrid.Recorder = (*recorder)(nil)

// outputsSeed is the seed of these tests' steps.
const outputsSeed = 9

// outputSteps returns steps of single tokens and prompts, of up to nine sequences. Some rows have logits.
func outputSteps() (all []*compute.Params) {
	group := &crowd{rng: rand.New(rand.NewPCG(outputsSeed, 0)), at: make([]int, 9)}
	for _, n := range []struct{ decode, prompt, without int }{
		{5, 21, 0}, // room for six single tokens
		{0, 11, 0},
		{7, 0, 6}, // one row of logits of a short prompt
		{7, 13, 2},
		{1, 3, 1}, // a prompt's alone
		{3, 5, 4}, // none
		{3, 0, 0}, // all
	} {
		p := group.step(n.decode, n.prompt)
		p.Out = p.Out[n.without:]
		for _, pages := range p.Pages {
			p.States = append(p.States, pages[0])
		}
		all = append(all, p)
	}
	return all
}

// wholeFamilies are the families with a last layer that computes all rows in every step: see model.Model.canNarrow.
var wholeFamilies = []string{"gemma3n", "gemma4", "smallthinker"}

// outputRows holds the logits of steps of Forward to the bytes that ForwardHidden gives, which computes every row of
// every layer; and the last layer's counts to the rows that have logits.
func outputRows(t *testing.T, f *gguf.File, d compute.Device, o model.Options) {
	t.Helper()
	o.Batch, o.Outputs, o.Cache = 37, 12, compute.CacheSpec{Pages: 10, States: 9}
	m, err := model.Load(t.Context(), f, d, o)
	if err != nil {
		t.Fatal(err)
	}
	run := func(forward func(*compute.Params) error) (logits [][]float32, tokens int64) {
		before := m.Neurons()
		for _, p := range outputSteps() {
			if err := forward(p); err != nil {
				t.Fatal(err)
			}
			for i := range p.Out {
				logits = append(logits, slices.Clone(readable(m.Logits(i))))
			}
		}
		last := len(before) - 1
		return logits, m.Neurons()[last].Tokens - before[last].Tokens
	}
	want, _ := run(m.ForwardHidden)
	got, tokens := run(m.Forward)
	for i := range want {
		sameBits(t, fmt.Sprintf("seed %d, row %d of logits", outputsSeed, i), got[i], want[i])
	}
	if narrow := tokens == int64(len(want)); tokens > 0 && narrow == slices.Contains(wholeFamilies, m.Arch) {
		t.Errorf("the last layer counted %d rows, and %d have logits", tokens, len(want))
	}
}

// TestOutputRows: in every family, steps with a last layer that computes only the rows that need logits give the bytes
// of steps that compute all rows.
func TestOutputRows(t *testing.T) {
	testenv.Thorough(t)
	families := lineage.All()
	if !testenv.Exhaustive(t) {
		families = slices.DeleteFunc(slices.Clone(families), func(f lineage.Family) bool {
			return !slices.Contains([]string{"llama", "qwen3moe", "nemotron_h", "gemma3n"}, f.Name)
		})
	}
	on(t, nil, func(d *Device) {
		for _, family := range families {
			if family.Headless {
				continue
			}
			t.Run(family.Name, func(t *testing.T) {
				defer d.reset()
				outputRows(t, small(t, synth.Spec{Arch: family.Name, Type: quant.F16}), d, model.Options{}) // prompts by halves
			})
		}
		type sparse struct {
			spec synth.Spec
			mode model.SparseMode
		}
		for _, c := range testenv.Some(t, 2, []sparse{
			{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact},
			{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
			{synth.Spec{Arch: "llama", Type: quant.F16}, model.Exact},
			{synth.Spec{Arch: "arcee", Type: quant.Q8_0}, model.Exact},
			{synth.Spec{Arch: "falcon", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict},
			{synth.Spec{Arch: "qwen3moe", Type: quant.Q8_0, Experts: 8, Used: 2}, model.Exact},
		}) {
			t.Run(fmt.Sprintf("%s %s/%s", c.spec.Arch, c.spec.Type, c.mode), func(t *testing.T) {
				defer d.reset()
				outputRows(t, small(t, c.spec), d, model.Options{Neurons: model.Neurons{Sparse: c.mode}})
			})
		}
	})
}

// TestDividedOutputRows is TestOutputRows of models that a GPU and the processor share.
func TestDividedOutputRows(t *testing.T) {
	testenv.Thorough(t)
	place := func(attention bool, bound int) compute.Place {
		return compute.Place{Split: compute.Split{Bound: bound}, Attention: attention, Predictor: attention}
	}
	const ff = 1024 // synthtest.Sparse's
	gpu, ram, head := place(true, ff), place(false, 0), compute.Place{Attention: true}
	type plan struct {
		name   string
		places []compute.Place
	}
	dense := testenv.Turns(t,
		plan{"the last layer in RAM", []compute.Place{gpu, ram, head}},
		plan{"hot neurons", []compute.Place{place(true, 160), place(true, 320), head}},
		plan{"attention in RAM", []compute.Place{place(false, 160), place(false, 320), {}}},
		plan{"predictors in RAM", []compute.Place{{Split: compute.Split{Bound: 160}, Attention: true}, {Split: compute.Split{Bound: 160}, Attention: true}, {}}},
		plan{"the last layer on the GPU", []compute.Place{ram, gpu, {}}},
	)
	experts := func(int) []plan {
		return []plan{
			{"the last layer in RAM", []compute.Place{place(true, 8), ram, head}},
			{"the last layer on the GPU", []compute.Place{ram, place(true, 8), {}}},
			{"three experts", []compute.Place{place(true, 3), place(true, 3), head}},
		}
	}
	on(t, nil, func(d *Device) {
		for i, c := range []struct {
			spec  synth.Spec
			mode  model.SparseMode
			plans func(int) []plan
		}{
			{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off, dense},
			{synth.Spec{Arch: "falcon", Type: quant.Q4_0}, model.Off, dense},
			{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact, dense},
			{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict, dense},
			{synth.Spec{Arch: "qwen3moe", Type: quant.F16, FF: 64, Experts: 8, Used: 2}, model.Off, experts},
		} {
			f := synthtest.Sparse(t, c.spec, 2)
			for _, p := range c.plans(i) {
				places := p.places
				t.Run(fmt.Sprintf("%s %s/%s/%s", c.spec.Arch, c.spec.Type, c.mode, p.name), func(t *testing.T) {
					host, err := cpu.New(cpu.Options{Threads: 2})
					if err != nil {
						t.Fatal(err)
					}
					both := hybrid.New(kept{d}, host, []bool{places[0].Attention, places[1].Attention})
					defer both.Close()
					outputRows(t, f, both, model.Options{Neurons: model.Neurons{Sparse: c.mode}, Places: places})
				})
			}
		}
	})
}

// TestUsesOfOutputRows: a request is charged its own uses of experts with slots, also if the last layer computes only
// rows that need logits, which have other numbers there.
func TestUsesOfOutputRows(t *testing.T) {
	testenv.Thorough(t)
	const used, prompt = 2, 5
	on(t, nil, func(d *Device) {
		f := synthtest.Sparse(t, synth.Spec{Arch: "qwen3moe", Type: quant.F16, FF: 64, Experts: 8, Used: used}, layersOfFamilies)
		m, both := loadSplit(t, f, kept{d}, budget{experts: 3, slots: true}.places(layersOfFamilies), eager())
		defer both.Close()
		p := compute.Params{
			Decode: 1, Tokens: []int32{3, 1, 40, 30, 17, 99}, Pos: []int32{0, 0, 1, 2, 3, 4}, Seq: []int32{0, 1, 1, 1, 1, 1}, Pages: [][]int32{{0}, {1}},
			Out: []int32{prompt}, Uses: make([]compute.ExpertUse, 2),
		}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		for seq, want := range []int64{used, used * (prompt + 1)} { // all rows in the first layer, and one row in the last
			if u := p.Uses[seq]; u.Hits+u.Misses != want {
				t.Errorf("sequence %d used %+v, %d experts in all are wanted", seq, u, want)
			}
		}
	})
}

// TestHeadInOrder: products with a head are the same bytes for prompts' rows as for single tokens, whatever arithmetic
// prompts have with other matrices.
func TestHeadInOrder(t *testing.T) {
	testenv.Thorough(t)
	const tokens, rows, cols = 5, 96, 256
	on(t, nil, func(d *Device) {
		rng := rand.New(rand.NewPCG(outputsSeed, 1))
		values := func(n int) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(rng.NormFloat64())
			}
			return v
		}
		matrix := func(typ quant.Type, rows int, values []float32, use compute.Use) *compute.Matrix {
			data := make([]byte, rows*typ.RowBytes(cols))
			quant.Encode(typ, data, values)
			return readable(d.Matrix(compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: data}, use))
		}
		table := matrix(quant.F32, tokens, values(tokens*cols), compute.Lookup)
		x, out := readable(d.Tensor(tokens, cols)), readable(d.Tensor(tokens, rows))
		weights := values(rows * cols)
		for _, use := range []compute.Use{compute.Head, compute.Lookup, compute.Dense} {
			w := matrix(quant.F16, rows, weights, use)
			product := func(decode int) (all []float32) {
				p := compute.Params{Decode: decode, Tokens: []int32{0, 1, 2, 3, 4}}
				err := d.Run(p.Segment(fmt.Sprintf("use %d", use)), &p, func(v compute.Verbs) {
					v.Embed(x, table)
					v.MatMul(x, compute.Products{{Out: out, W: w}})
				})
				if err != nil {
					t.Fatal(err)
				}
				for i := range tokens {
					all = append(all, readable(d.Read(out, i))...)
				}
				return all
			}
			apart := !slices.Equal(product(0), product(tokens))
			if other := use == compute.Dense && d.arithmetic(quant.F16) != Ordered; apart != other {
				t.Errorf("seed %d, use %d: bytes of prompts and single tokens differ: %t, want %t", outputsSeed, use, apart, other)
			}
		}
	})
}
