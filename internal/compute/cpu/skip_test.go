package cpu_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// A token's experts that may be left out are those of low rank and small weight.
func TestSkipLeaves(t *testing.T) {
	leave := make([]bool, 4)
	for _, c := range []struct {
		skip compute.Skip
		want []bool
	}{
		{compute.Skip{}, []bool{false, false, false, false}},
		{compute.Skip{Below: 1}, []bool{false, false, false, false}},
		{compute.Skip{After: 1, Below: 1}, []bool{false, true, true, true}},
		{compute.Skip{After: 3, Below: 1}, []bool{false, false, false, true}},
		{compute.Skip{After: 1, Below: 0.2}, []bool{false, false, true, true}}, // of weights whose sum is 2
	} {
		if c.skip.Leaves([]float32{1, 0.5, 0.3, 0.2}, leave); !slices.Equal(leave, c.want) {
			t.Errorf("%+v: %v, want %v", c.skip, leave, c.want)
		}
	}
}

// TestExpertsLeftOut: an expert that may be left out gives what it gives with a weight of zero, if it is on disk and not in
// RAM and no token of the step needs it. In prompts, and in RAM, none is left out.
func TestExpertsLeftOut(t *testing.T) {
	const embd, ff, n, used = 256, 96, 24, 4
	skip := compute.Skip{After: 2, Below: 0.22}
	r := testenv.Rand(t)
	leftOut, stayed := 0, 0
	for _, exact := range []bool{false, true} {
		for _, slots := range []int{5, n} {
			for _, tokens := range []int{1, compute.FewTokens, 20} {
				name := fmt.Sprintf("exact=%t, %d slots, %d tokens", exact, slots, tokens)
				l := newExpertLayer(t, quant.Q4_0, embd, ff, n)
				ram, disk := must(cpu.New(cpu.Options{Threads: 2})), must(cpu.New(cpu.Options{Threads: 2, UnitCache: int64(slots) * l.expertBytes() * 7 / 5}))
				inRAM, onDisk := l.bind(t, ram, exact, false), l.bind(t, disk, exact, true)
				if err := disk.Keep(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				held := int(disk.Usage().Units.Slots) // experts below it are in RAM
				xs, ls := make([]float32, tokens*embd), make([]float32, tokens*n)
				for i := range xs {
					xs[i] = float32(r.NormFloat64())
				}
				for i := range ls {
					ls[i] = float32(r.NormFloat64())
				}
				// run computes the layer. left, if it is not nil, says which pairs get a weight of zero. It returns the choice, too.
				run := func(d *cpu.Device, w compute.ExpertWeights, left func(chosen []float32)) (out, chosen []float32) {
					x, y, logits, choice := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, n)), must(d.Choice(tokens, used, n))
					copy(d.Data(x), xs)
					copy(d.Data(logits), ls)
					chosen = make([]float32, tokens*2*used)
					err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens), Decode: min(tokens, 4)}, func(v compute.Verbs) {
						v.Route(choice, logits, nil, nil, compute.Routing{Score: compute.Softmax, Normalised: true, Scale: 1})
						d.ChoiceData(choice, chosen)
						if left != nil {
							left(chosen)
							d.FillChoice(choice, chosen)
						}
						v.Experts(y, x, choice, w)
					})
					if err != nil {
						t.Fatal(err)
					}
					return slices.Clone(d.Data(y)), chosen
				}
				// zero gives a weight of zero to pairs that may be left out and that are says.
				count := 0
				zero := func(are func(e int, needed bool) bool) func(chosen []float32) {
					return func(chosen []float32) {
						leave, needed := make([]bool, tokens*used), map[int]bool{}
						for i := range tokens {
							of := chosen[i*2*used:][:2*used]
							skip.Leaves(of[used:], leave[i*used:][:used])
							for k := range used {
								needed[int(of[k])] = needed[int(of[k])] || !leave[i*used+k]
							}
						}
						for i, y := range leave {
							of := chosen[i/used*2*used:][:2*used]
							if e := int(of[i%used]); y && are(e, needed[e]) {
								of[used+i%used] = 0
								count++
							}
						}
					}
				}
				full, _ := run(ram, inRAM, nil)
				all, _ := run(ram, inRAM, zero(func(int, bool) bool { return true }))
				w := inRAM
				w.Skip = skip
				if got, _ := run(ram, w, nil); !slices.Equal(got, full) {
					t.Errorf("%s: experts in RAM are left out", name)
				}
				w.Skip.Always = true
				if got, _ := run(ram, w, nil); !slices.Equal(got, all) || slices.Equal(got, full) && count > 0 {
					t.Errorf("%s: experts are not always left out", name)
				}
				count = 0
				want, _ := run(ram, inRAM, zero(func(e int, needed bool) bool { return tokens <= compute.FewTokens && e >= held && !needed }))
				w = onDisk
				w.Skip = skip
				if got, _ := run(disk, w, nil); !slices.Equal(got, want) {
					t.Errorf("%s: %d experts left out give other outputs than with a weight of zero", name, count)
				}
				use := disk.Usage().Units
				if int(use.Left) != count {
					t.Errorf("%s: %d uses were left out, want %d", name, use.Left, count)
				}
				if leftOut += count; count == 0 {
					stayed++
				}
				w.Skip.Always = true
				if got, _ := run(disk, w, nil); !slices.Equal(got, all) {
					t.Errorf("%s: experts on disk are not always left out", name)
				}
				w.Skip = compute.Skip{}
				if got, _ := run(disk, w, nil); !slices.Equal(got, full) {
					t.Errorf("%s: without a setting outputs differ from those of experts in RAM", name)
				}
				ram.Close()
				disk.Close()
			}
		}
	}
	if leftOut < 10 || stayed == 0 {
		t.Errorf("%d uses were left out, and none in %d steps", leftOut, stayed)
	}
}
