package vulkan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// weighing is a device that counts, records what it is to run, and knows where weights are.
type weighing struct {
	*Device
	weights map[driver.View]bool
}

func (d *weighing) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return d.Record(seg, p, body)
}

func (d *weighing) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	m, err := d.Device.Matrix(src, use)
	if err == nil {
		for _, p := range mem(m).parts {
			d.weights[p.memory] = true
		}
	}
	return m, err
}

// stepWork is the device's work for a step of single tokens: the number of dispatches, all their invocations, and
// dispatches by shader. bytes are the weights bound to them. A dispatch reads each bound weight once from memory,
// however many of its workgroups then find it in caches.
type stepWork struct {
	dispatches, invocations, bytes int
	shaders                        map[string]int
}

// work returns the work of a step of n sequences.
func (d *weighing) work(t *testing.T, m *model.Model, n int) stepWork {
	t.Helper()
	w := stepWork{shaders: map[string]int{}}
	d.tally = func(c *call, _ string, _ bool) {
		w.dispatches++
		w.shaders[c.shader]++
		w.invocations += c.local * c.groups[0] * c.groups[1] * c.groups[2]
		bound := map[driver.View]bool{} // once: weights stand in for what there is none of, too
		for _, b := range c.bind {
			if d.weights[b.View] && !bound[b.View] {
				bound[b.View] = true
				w.bytes += int(b.Size)
			}
		}
	}
	defer func() { d.tally = nil }()
	p := compute.Params{Decode: n, States: []int32{0}}
	for i := range int32(n) {
		p.Tokens, p.Pos, p.Seq, p.Out = append(p.Tokens, 1), append(p.Pos, 5), append(p.Seq, i), append(p.Out, i)
		p.Pages, p.Near = append(p.Pages, []int32{i}), append(p.Near, []int32{i})
	}
	if err := m.Forward(&p); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSequencesReadOnce: a step of any number of running sequences up to fewRows binds each weight as often as a step
// of one sequence. It takes hardly more dispatches, and as many for nine sequences as for sixty-four. Its workgroups
// grow no faster than the rows for which the step is recorded. So another sequence costs only its own activations. No
// step changes from its own tokens' neurons to whole layers, or from sums of single tokens to tiles of many.
func TestSequencesReadOnce(t *testing.T) {
	for name, test := range map[string]struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		"dense":   {synth.Spec{Arch: "llama", FF: 1024}, model.Off},
		"exact":   {synth.Spec{Arch: "llama", FF: 1024, Activation: "relu", Sparsity: 0.9}, model.Exact},
		"predict": {synth.Spec{Arch: "llama", Magic: "PWRI", FF: 1024, Activation: "relu", Sparsity: 0.9}, model.Predict},
		"experts": {synth.Spec{Arch: "qwen3moe", FF: 128, Experts: 16}, model.Off},
	} {
		t.Run(name, func(t *testing.T) {
			spec := test.spec
			spec.Type, spec.Layers, spec.Embd, spec.Heads, spec.Seed = quant.Q4_0, 3, 256, 4, 11
			d := &weighing{Counter(Info{Memory: 1 << 40, Free: 1 << 40}), map[driver.View]bool{}}
			m, err := model.Load(t.Context(), synthtest.File(t, spec), d, model.Options{Batch: fewRows, Outputs: fewRows, Cache: compute.CacheSpec{Pages: fewRows}, Neurons: model.Neurons{Sparse: test.mode}})
			if err != nil {
				t.Fatal(err)
			}
			one := d.work(t, m, 1)
			if one.bytes == 0 {
				t.Fatal("no weights were read")
			}
			many := d.work(t, m, fewRows).dispatches
			if layers := spec.Layers; many > one.dispatches+5*layers {
				t.Errorf("%d dispatches for %d sequences, %d for one", many, fewRows, one.dispatches)
			}
			for n := 2; n <= fewRows; n++ {
				w := d.work(t, m, n)
				if w.dispatches > many || n > compute.FewTokens && w.dispatches != many || w.bytes != one.bytes {
					t.Errorf("%d sequences: %d dispatches bind %d bytes of weights; one sequence's bind %d: %v", n, w.dispatches, w.bytes, one.bytes, w.shaders)
				}
				if rows := rounded(n, someRows); w.invocations > rows*one.invocations {
					t.Errorf("%d sequences, in a step of %d rows, take %d invocations, one takes %d", n, rows, w.invocations, one.invocations)
				}
				for shader := range w.shaders {
					for _, tiles := range []string{"matmat", "downmat", "mask"} {
						if strings.HasPrefix(shader, tiles) {
							t.Errorf("%d sequences go through %s", n, shader)
						}
					}
				}
			}
		})
	}
}

// TestTeams: a token's product has the same bytes alone and among any number of tokens, whatever workgroups and teams
// these are cut into.
func TestTeams(t *testing.T) {
	testenv.Thorough(t)
	d := lent(t)
	const rows, cols, most = 41, 1280, mostVectors + 2
	for _, typ := range []quant.Type{quant.Q6_K, quant.F16} {
		rng := rand.New(rand.NewPCG(uint64(typ), 1))
		size := typ.RowBytes(cols)
		src := compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: make([]byte, rows*size)}
		row := make([]float32, cols)
		for r := range rows {
			for c := range row {
				row[c] = float32(rng.NormFloat64())
			}
			quant.Imitate(typ, src.Data[r*size:][:size], row)
		}
		w, err := d.Matrix(src, compute.Dense)
		if err != nil {
			t.Fatal(err)
		}
		x, err := d.Tensor(most, cols)
		if err == nil {
			err = d.upload(floats(x), 4*cols, func(dst []byte, _ int) {
				for i, out := 0, numbers(dst); i < len(out); i++ {
					out[i] = float32(rng.NormFloat64())
				}
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := d.Tensor(most, rows)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := d.mem.Alloc(driver.ToHost, 4*most*rows)
		if err != nil {
			t.Fatal(err)
		}
		products := func(n, step int, v func(n int) vectors) []float32 {
			t.Helper()
			err := d.once(func(r *recorder) {
				r.fill(floats(out), 0)
				o := operand{r: r, x: x, name: "activations"}
				for first := 0; first < n; first += step {
					r.multiplyVectors(v(min(step, n-first)), &o, first, min(step, n-first), first, compute.Product{Out: out, W: w})
				}
				r.copy(seen, floats(out))
			})
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(numbers(seen.Host())[:n*rows])
		}
		usual := func(n int) vectors { return vectorsFor(typ, rows, n) }
		want := products(most, 1, usual)
		for _, n := range []int{9, 17, 33, 65, most} {
			if got := products(n, n, usual); !slices.Equal(got, want[:n*rows]) {
				t.Errorf("%s: %d tokens are other ones than alone", typ, n)
			}
		}
		for _, v := range []vectors{
			{rows: 1, tokens: 3, teams: 2, local: 128}, {rows: 2, tokens: 4, teams: 1, local: 64}, {rows: 2, tokens: 4, teams: 2, local: 256},
		} {
			if got := products(37, 37, func(int) vectors { return v }); !slices.Equal(got, want[:37*rows]) {
				t.Errorf("%s: %+v gives other bytes", typ, v)
			}
		}
		d.reset()
	}
}
