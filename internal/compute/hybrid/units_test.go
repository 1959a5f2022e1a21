package hybrid_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestExpertsOnDisk: with GPUs, too, experts on disk give the same bytes as in RAM, whether GPUs hold some of a layer's
// experts, all or none, and whether or not prompts send the others.
func TestExpertsOnDisk(t *testing.T) {
	const experts = 24
	on := func(gpu compute.Tier, held int) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu, Bound: held}, Attention: true}
	}
	plans := map[string][layers + 1]compute.Place{
		"some":     {on(0, 5), on(0, 0), on(0, experts)},
		"none":     {},
		"two GPUs": {on(0, 3), on(1, experts), on(1, 7)},
	}
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		{synth.Spec{Arch: "qwen3moe", Type: quant.Q4_0}, model.Off},
		{synth.Spec{Arch: "smallthinker", Type: quant.F16}, model.Exact},
	} {
		c.spec.Experts, c.spec.Used, c.spec.FF = experts, 3, 32
		f := synthtest.SparseOnDisk(t, c.spec, layers)
		for name, plan := range plans {
			for _, streamed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/streamed=%t", c.spec.Arch, name, streamed), func(t *testing.T) {
					var sent [2]int64
					room := int64(1 << 20) // for experts
					if streamed {          // and for chunks
						room *= 2
					}
					run := func(onDisk bool) ([][]float32, []model.NeuronUse, compute.UnitUse) {
						processor, err := cpu.New(cpu.Options{Threads: 2, Floats: true, UnitCache: room})
						if err != nil {
							t.Fatal(err)
						}
						dev := deviceBeside(processor, plan, streamed, func() hybrid.GPU { return newTapes(host(t), false) })
						out, use := logits(t, f, dev, model.Options{Neurons: model.Neurons{Sparse: c.mode}, Places: plan[:], OnDisk: onDisk})
						if d, ok := dev.(*hybrid.Device); ok && onDisk {
							sent[1] = d.Sent()
						} else if ok {
							sent[0] = d.Sent()
						}
						return out, use, dev.Usage().Units
					}
					want, wantUse, _ := run(false)
					got, use, units := run(true)
					if apart(got, want) != 0 {
						t.Error("other bytes than in RAM")
					}
					for l := range use {
						if use[l] != wantUse[l] {
							t.Errorf("layer %d counted %+v, in RAM %+v", l, use[l], wantUse[l])
						}
					}
					if sent[1] != sent[0] || streamed && name == "some" && c.mode == model.Off && sent[1] == 0 {
						t.Errorf("%d bytes were sent, in RAM %d", sent[1], sent[0])
					}
					held := 0
					for _, p := range plan[:layers] {
						held += p.Bound
					}
					if units.Units != int64(layers*experts-held) || units.Misses == 0 || units.Kept > 1<<20+200<<10 {
						t.Errorf("%+v with %d experts on GPUs", units, held)
					}
					if name != "two GPUs" && c.mode == model.Off && units.GuessesUsed == 0 {
						t.Errorf("%+v: guesses at the next layer's experts", units)
					}
				})
			}
		}
	}
}

// TestUnitCannotBeRead: a step fails with the file's name if the disk does not give its experts, even if it was the
// first of its kind. Once the disk gives them again, later steps have the usual bytes.
func TestUnitCannotBeRead(t *testing.T) {
	const experts = 24
	place := compute.Place{Split: compute.Split{Bound: 5}, Attention: true}
	plan := [layers + 1]compute.Place{place, {}, place}
	f := synthtest.SparseOnDisk(t, synth.Spec{Arch: "qwen3moe", Type: quant.F16, Experts: experts, Used: 3, FF: 32}, layers)
	o := model.Options{Batch: 16, Outputs: 2, Cache: compute.CacheSpec{Pages: 3}, Neurons: model.Neurons{Sparse: model.Off}, Places: plan[:], OnDisk: true}
	content, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, streamed := range []bool{false, true} {
		room := int64(5 * 3 * 32 * 256 * 2) // for fewer experts than a token uses
		if streamed {                       // and for chunks
			room = 2 << 20
		}
		open := func() *model.Model {
			processor, err := cpu.New(cpu.Options{Threads: 2, Floats: true, UnitCache: room})
			if err != nil {
				t.Fatal(err)
			}
			dev := deviceBeside(processor, plan, streamed, func() hybrid.GPU { return newTapes(host(t), false) })
			t.Cleanup(func() { dev.Close() })
			m, err := model.Load(t.Context(), f, dev, o)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		step := func(m *model.Model, at, n int) ([]float32, error) {
			p := compute.Params{Pages: [][]int32{{2, 0}}, Out: []int32{int32(n - 1)}}
			for i := range n {
				p.Tokens, p.Pos, p.Seq = append(p.Tokens, int32(7*(at+i)+1)), append(p.Pos, int32(at+i)), append(p.Seq, 0)
			}
			if err := m.Forward(&p); err != nil {
				return nil, err
			}
			row, err := m.Logits(0)
			return slices.Clone(row), err
		}
		well, ill := open(), open()
		for at, n := range []int{11, 1, 1} { // a failure makes the second one record first
			if at > 0 {
				at += 10
			}
			want, err := step(well, at, n)
			if err != nil {
				t.Fatal(err)
			}
			if at < 12 {
				if err := os.Truncate(f.Path, 4096); err != nil {
					t.Fatal(err)
				}
				switch _, err := step(ill, at, n); {
				case err == nil && streamed && n == 1: // all may be in RAM
				case err == nil || !strings.Contains(err.Error(), f.Path):
					t.Errorf("a step at %d without experts: %v", at, err)
				}
				if err := os.WriteFile(f.Path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := step(ill, at, n)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("streamed %t: after a step that failed at %d others have other bytes", streamed, at)
			}
		}
	}
}

// TestNeuronsOnDisk is TestExpertsOnDisk for neurons.
func TestNeuronsOnDisk(t *testing.T) {
	place := func(hot int) compute.Place {
		return compute.Place{Split: compute.Split{Bound: hot}, Attention: true, Predictor: true}
	}
	plan := [layers + 1]compute.Place{place(160), place(96), place(0)}
	for _, c := range []struct {
		arch  string
		mode  model.SparseMode
		parts int64 // that are on disk
	}{{"llama", model.Predict, 3}, {"llama", model.Exact, 2}, {"opt", model.Predict, 2}} {
		f := synthtest.SparseOnDisk(t, synth.Spec{Arch: c.arch, Type: quant.F16, Magic: "PWRI"}, layers)
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/streamed=%t", c.arch, c.mode, streamed), func(t *testing.T) {
				run := func(onDisk bool) ([][]float32, []model.NeuronUse, compute.UnitUse) {
					processor, err := cpu.New(cpu.Options{Threads: 2, Floats: true, UnitCache: (ff + 700) * c.parts * 2 * 256 * 5 / 4})
					if err != nil {
						t.Fatal(err)
					}
					dev := deviceBeside(processor, plan, streamed, func() hybrid.GPU { return &idleTapes{newTapes(host(t), false)} })
					out, use := logits(t, f, dev, model.Options{Neurons: model.Neurons{Sparse: c.mode}, Places: plan[:], OnDisk: onDisk})
					return out, use, dev.Usage().Units
				}
				want, wantUse, _ := run(false)
				got, use, units := run(true)
				if d := apart(got, want); d != 0 && !(streamed && d <= agree) {
					t.Errorf("other bytes than in RAM: they differ by %.2g of the largest", d)
				}
				for l := range use {
					if u, w := use[l], wantUse[l]; u.Tokens != w.Tokens || u.Predicted != w.Predicted || u.Active != w.Active || u.Gated != w.Gated {
						t.Errorf("layer %d counted %+v, in RAM %+v", l, u, w)
					}
				}
				if units.Units != 3*ff-160-96 || units.Misses == 0 {
					t.Errorf("%+v with %d neurons on the GPU", units, 160+96)
				}
				if (units.GuessesUsed > 0) != (c.arch == "llama" && c.mode == model.Predict) {
					t.Errorf("%+v: guesses at the next layer's neurons", units)
				}
			})
		}
	}
}
