package vulkan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// mostShapes bounds the numbers of rows of one kind, of 1 to 64, that recordings are made for: 1, 2, 3, 4, 6, 8, 12,
// 16, 24, 32, 48, 64.
const mostShapes = 12

// TestShape: a shape has room for its step, keeps apart what a step has none of, and fits buffers with the spare rows;
// there are few shapes of many steps.
func TestShape(t *testing.T) {
	d := &Device{}
	for _, most := range []int{1, 2, 7, 8, 16, 37, 64, 512} {
		largest := compute.Segment{Rows: most, Out: (most + 1) / 2}
		spare := d.Spare(most)
		if spare >= someRows {
			t.Errorf("steps of %d rows have %d to spare", most, spare)
		}
		for decode := range most + 1 {
			full := map[compute.Segment]bool{}
			for prompts := range most + 1 - decode {
				seg := compute.Segment{Rows: decode + prompts, Decode: decode, DecodeOut: min(decode, largest.Out)}
				seg.Out = seg.DecodeOut + min(min(prompts, 1), largest.Out-seg.DecodeOut)
				s := d.Shape(seg, largest)
				if s.Decode < seg.Decode || s.Rows-s.Decode < prompts || s.DecodeOut < seg.DecodeOut || s.Out-s.DecodeOut < seg.Out-seg.DecodeOut || s.Rows > most+spare || s.Decode > most || s.Out > largest.Out {
					t.Fatalf("of at most %+v and %d spare, %+v has the shape %+v", largest, spare, seg, s)
				}
				if (s.Decode == 0) != (decode == 0) || (s.Rows == s.Decode) != (prompts == 0) || (s.DecodeOut == 0) != (seg.DecodeOut == 0) || (s.Out == s.DecodeOut) != (seg.Out == seg.DecodeOut) || s.DecodeOut > s.Decode || s.Out-s.DecodeOut > s.Rows-s.Decode {
					t.Fatalf("%+v has the shape %+v", seg, s)
				}
				for _, n := range [][2]int{{s.Decode, seg.Decode}, {s.Rows - s.Decode, prompts}} {
					if n[1] <= matTile && 3*(n[0]-n[1]) > n[0] || n[0]-n[1] >= matTile {
						t.Errorf("%+v has the shape %+v: %d rows for %d", seg, s, n[0], n[1])
					}
				}
				full[s] = true
			}
			if n := len(full); n > mostShapes+most/matTile+2 {
				t.Errorf("%d single tokens with prompts of up to %d tokens: %d shapes", decode, most-decode, n)
			}
		}
	}
	if s := d.Shape(compute.Segment{Rows: 1, Decode: 1, Out: 1, DecodeOut: 1}, compute.Segment{Rows: 512, Out: 64}); s != (compute.Segment{Rows: 1, Decode: 1, Out: 1, DecodeOut: 1}) {
		t.Errorf("a token has the shape %+v", s)
	}
}

// shaped is a model's device that counts recordings and lets tests look at its cache.
type shaped struct {
	*Device
	name   string
	bodies int
	cache  *compute.Cache
}

func (s *shaped) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	seg.Name += s.name // two models on one device
	return s.Device.Run(seg, p, func(v compute.Verbs) { s.bodies++; body(v) })
}

func (s *shaped) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	var err error
	s.cache, err = s.Device.Cache(spec)
	return s.cache, err
}

// memory returns the content of the cache.
func (s *shaped) memory(t *testing.T) (all []byte) {
	t.Helper()
	for l := range s.cache.Layers {
		keys, values := cacheLayer(s.cache, l)
		for _, v := range []driver.View{keys, values} {
			to, err := s.mem.Alloc(driver.ToHost, v.Size)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.once(func(r *recorder) { r.copy(to, v) }); err != nil {
				t.Fatal(err)
			}
			all = append(all, to.Host()...)
		}
	}
	return all
}

// exact runs steps as they are, without rows to spare.
type exact struct{ compute.Device }

func (exact) Shape(seg, _ compute.Segment) compute.Segment { return seg }
func (exact) Spare(int) int                                { return 0 }

// small writes a small model and opens it.
func small(t *testing.T, spec synth.Spec) *gguf.File {
	t.Helper()
	spec.Layers, spec.Embd, spec.FF, spec.Heads, spec.Sparsity, spec.PowerLaw, spec.Seed = 2, 64, 256, 2, 0.8, 1, 3
	return synthtest.OnDisk(t, spec)
}

// crowd are sequences with a page each, and how far they are.
type crowd struct {
	rng *rand.Rand
	at  []int
}

// step returns a step of decode single tokens and a prompt of prompt tokens, in sequences that have room for them.
// Single tokens have logits, and so has a prompt's last token.
func (c *crowd) step(decode, prompt int) *compute.Params {
	p := &compute.Params{Decode: decode}
	add := func(seq, n int) {
		for range n {
			p.Tokens, p.Pos, p.Seq = append(p.Tokens, int32(c.rng.IntN(200))), append(p.Pos, int32(c.at[seq])), append(p.Seq, int32(len(p.Pages)))
			c.at[seq]++
		}
		p.Out = append(p.Out, int32(len(p.Tokens)-1))
		p.Pages = append(p.Pages, []int32{int32(seq)})
	}
	order := c.rng.Perm(len(c.at))
	take := func(n int) {
		seq := order[0]
		if order = order[1:]; c.at[seq]+n > compute.PagePositions {
			c.at[seq] = 0 // another text
		}
		add(seq, n)
	}
	for range decode {
		take(1)
	}
	if prompt > 0 {
		take(prompt)
	}
	return p
}

// TestPadding: rows have the same bytes with padding around them as without, in every mode, and so have all pages of
// the cache; neurons of padding are not counted.
func TestPadding(t *testing.T) {
	testenv.Thorough(t)
	const seed = 6
	type padded struct {
		spec synth.Spec
		mode model.SparseMode
	}
	for _, c := range testenv.Some(t, 3, []padded{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Off}, // prompts by halves
		{synth.Spec{Arch: "llama", Type: quant.Q8_0}, model.Exact},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Exact},
		{synth.Spec{Arch: "opt", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict},
	}) {
		t.Run(fmt.Sprintf("%s %s/%s", c.spec.Arch, c.spec.Type, c.mode), func(t *testing.T) {
			on(t, nil, func(d *Device) {
				f := small(t, c.spec)
				padded, plain := &shaped{Device: d, name: ", padded"}, &shaped{Device: d}
				var models []*model.Model
				for _, dev := range []compute.Device{padded, exact{plain}} {
					m, err := model.Load(t.Context(), f, dev, model.Options{Batch: 37, Outputs: 20, Cache: compute.CacheSpec{Pages: 24}, Neurons: model.Neurons{Sparse: c.mode}})
					if err != nil {
						t.Fatal(err)
					}
					models = append(models, m)
				}
				group := &crowd{rng: rand.New(rand.NewPCG(seed, 0)), at: make([]int, 23)}
				for _, n := range [][2]int{{1, 0}, {3, 0}, {5, 0}, {6, 3}, {0, 5}, {5, 0}, {9, 0}, {0, 21}, {7, 3}, {1, 36}, {5, 32}, {18, 9}, {3, 11}} {
					var rows [2][][]float32
					p := group.step(n[0], n[1])
					for i, m := range models {
						q, forward := *p, m.Forward
						if n[1] > 0 {
							forward = m.ForwardHidden
						}
						if err := forward(&q); err != nil {
							t.Fatal(err)
						}
						for out := range p.Out {
							rows[i] = append(rows[i], slices.Clone(readable(m.Logits(out))))
						}
						for row := 0; n[1] > 0 && row < len(p.Tokens); row++ {
							rows[i] = append(rows[i], slices.Clone(readable(m.Hidden(row))))
						}
					}
					for i := range rows[0] {
						sameBits(t, fmt.Sprintf("seed %d, %d single tokens and a prompt of %d, row %d of logits and hidden states", seed, n[0], n[1], i), rows[0][i], rows[1][i])
					}
				}
				if !bytes.Equal(padded.memory(t), plain.memory(t)) {
					t.Error("keys and values differ where there was padding")
				}
				for l, u := range models[0].Neurons() {
					w := models[1].Neurons()[l]
					if u.Steps != w.Steps || u.Tokens != w.Tokens || u.Predicted != w.Predicted || u.Gated != w.Gated || u.Active != w.Active {
						t.Errorf("layer %d counted %+v with padding, without %+v", l, u, w)
					}
				}
			})
		})
	}
}

// TestRecordings: steps of any number of rows, of both kinds and in any order, need few recordings, which stay. What the
// steps compute does not matter, so the model is as small as can be; the numbers are those next to the borders of shapes.
func TestRecordings(t *testing.T) {
	testenv.Thorough(t)
	const seed, rows = 7, 64
	on(t, nil, func(d *Device) {
		dev := &shaped{Device: d}
		f := synthtest.OnDisk(t, synth.Spec{Arch: "llama", Type: quant.F16, Layers: 1, Embd: 32, FF: 32, Heads: 1, Vocab: 260, Seed: 3})
		m, err := model.Load(t.Context(), f, dev, model.Options{Batch: 128, Outputs: rows, Cache: compute.CacheSpec{Pages: rows + 1}})
		if err != nil {
			t.Fatal(err)
		}
		group := &crowd{rng: rand.New(rand.NewPCG(seed, 0)), at: make([]int, rows+1)}
		order := group.rng.Perm(2 * rows)
		order = slices.DeleteFunc(order, func(i int) bool { n := i/2 + 1; return n > 8 && n%4 > 1 || n > 16 && n%8 > 1 })
		for round, most := range []int{2*mostShapes + 1, 0} { // one more, in which the device learns what is read after a step
			before := dev.bodies
			for _, i := range order {
				n := [2]int{i/2 + 1, 0}
				if i%2 == 1 {
					n = [2]int{0, i/2 + 1}
				}
				p := group.step(n[0], n[1])
				if err := m.Forward(p); err != nil {
					t.Fatal(err)
				}
				for out := range p.Out {
					readable(m.Logits(out))
				}
			}
			if n := dev.bodies - before; n > most {
				t.Errorf("seed %d, round %d: %d recordings of steps of 1 to %d rows of either kind, at most %d are needed", seed, round, n, rows, most)
			}
		}
	})
}
