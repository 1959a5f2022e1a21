package cpu_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// neuronLayers are layers of random neurons, in memory and in a file, where parts are apart or a neuron's rows follow
// one another.
type neuronLayers struct {
	embd, ff int
	typ      quant.Type
	bundled  bool
	order    []int32
	file     *disk.File
	data     [][3][]byte // gate, up and down by layer
	at       [][3]int64
	dense    [][3]int64 // of bundled neurons: where the parts are once more, apart
	stride   int64
}

func newNeuronLayers(t *testing.T, r *rand.Rand, typ quant.Type, layers, embd, ff int, bundled, ordered bool) *neuronLayers {
	t.Helper()
	l := &neuronLayers{embd: embd, ff: ff, typ: typ, bundled: bundled}
	if ordered {
		for _, i := range r.Perm(ff) {
			l.order = append(l.order, int32(i))
		}
	}
	row := typ.RowBytes(embd)
	l.stride = int64(row)
	if bundled {
		l.stride = int64(3*row+511) &^ 511
	}
	content, values := make([]byte, 32), make([]float32, embd)
	for range layers {
		var parts [3][]byte
		var at, dense [3]int64
		for p := range parts {
			parts[p] = make([]byte, ff*row)
			for i := range ff {
				for j := range values {
					values[j] = float32(r.NormFloat64()) / 8
				}
				quant.Encode(typ, parts[p][i*row:][:row], values)
			}
		}
		begin := int64(len(content))
		if bundled {
			content = append(content, make([]byte, l.stride*int64(ff))...)
		}
		for p, data := range parts {
			if !bundled {
				at[p] = int64(len(content))
				content = append(append(content, data...), make([]byte, 20<<10)...) // further than parts that are read together
				continue
			}
			at[p] = begin + int64(p*row)
			for i := range ff {
				copy(content[at[p]+int64(i)*l.stride:], data[i*row:][:row])
			}
			dense[p] = int64(len(content))
			content = append(content, data...)
		}
		l.data, l.at, l.dense = append(l.data, parts), append(l.at, at), append(l.dense, dense)
	}
	path := filepath.Join(t.TempDir(), "neurons")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	l.file = must(disk.Open(path))
	t.Cleanup(func() { l.file.Close() })
	return l
}

// neuronBytes returns what a neuron's parts from the first on take in RAM.
func (l *neuronLayers) neuronBytes(parts int) int64 {
	return int64(parts * kernel.RowBytes(l.typ, l.embd))
}

// bind takes the layers in: of those on disk deciding says that what decides which neurons are open is there, too.
func (l *neuronLayers) bind(t *testing.T, d *cpu.Device, act compute.Activation, gated, onDisk, deciding bool) (all []compute.SparseWeights) {
	t.Helper()
	for i, data := range l.data {
		var m [3]*compute.Matrix
		var parts []*compute.Matrix
		first := 0
		if !gated {
			first = 1
		}
		for p := first; p < 3; p++ {
			src := compute.Source{Name: fmt.Sprint("part ", p, " of layer ", i), Type: l.typ, Rows: l.ff, Cols: l.embd, Data: data[p], Order: l.order}
			if onDisk && (p > first || deciding) {
				src.Disk = &compute.OnDisk{File: l.file, Offset: l.at[i][p], Stride: l.stride, Units: l.ff, Verify: func(unit int, row []byte) error {
					if !bytes.Equal(row, data[p][unit*len(row):][:len(row)]) {
						return fmt.Errorf("%s: another row than that of neuron %d", l.file.Path(), unit)
					}
					return nil
				}}
				if l.bundled && i > 0 {
					src.Disk.Dense = &compute.OnDisk{File: l.file, Offset: l.dense[i][p], Stride: int64(l.typ.RowBytes(l.embd)), Units: l.ff}
				}
				src.Data = make([]byte, len(data[p])) // which is not read
			}
			m[p] = must(d.Matrix(src, compute.Rows))
			if src.Disk != nil {
				parts = append(parts, m[p])
			}
		}
		if onDisk {
			if err := d.Bundle(nil, parts...); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, compute.SparseWeights{Gate: m[0], Up: m[1], Down: m[2], Act: act, Count: &compute.NeuronCount{}})
	}
	return all
}

// TestNeuronsOnDisk: neurons on disk give the bytes that they give in RAM, and are counted as there, whatever number of
// slots there is, for a token, a few and prompts, by predicted sets and by gates.
func TestNeuronsOnDisk(t *testing.T) {
	const embd, ff, layers, most = 288, 512, 3, 70
	cats := compute.Activation{Kind: compute.SiLU, Threshold: 0.9}
	for _, c := range []struct {
		name             string
		typ              quant.Type
		act              compute.Activation
		gated            bool
		predict          bool
		bundled, ordered bool
		slots            int
	}{
		{"predict", quant.Q4_0, compute.Activation{Kind: compute.ReLU}, true, true, false, false, 90},
		{"predict", quant.Q8_0, compute.Activation{Kind: compute.ReLU}, true, true, true, true, 400},
		{"predict", quant.F16, compute.Activation{Kind: compute.ReLU}, true, true, true, false, layers * ff},
		{"predict, no gates", quant.F16, compute.Activation{Kind: compute.ReLU}, false, true, false, true, 300},
		{"predict, no gates", quant.Q4_0, compute.Activation{Kind: compute.ReLU}, false, true, true, false, 3},
		{"exact", quant.Q4_0, compute.Activation{Kind: compute.FATReLU, Threshold: 3}, true, false, true, false, 200},
		{"exact", quant.F16, compute.Activation{Kind: compute.ReLU}, true, false, false, true, 600},
		{"exact", quant.Q8_0, compute.Activation{Kind: compute.FATReLU, Threshold: 3}, true, false, false, false, 20},
		{"exact, no gates", quant.Q8_0, compute.Activation{Kind: compute.ReLU2}, false, false, false, false, 700},
		{"threshold", quant.Q4_0, cats, true, false, false, true, 500},
		{"threshold", quant.F16, cats, true, false, true, false, 40},
	} {
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%s/%d slots/%d threads", c.name, c.typ, c.slots, threads), func(t *testing.T) {
				r := testenv.Rand(t)
				l := newNeuronLayers(t, r, c.typ, layers, embd, ff, c.bundled, c.ordered)
				parts := 2
				if !c.gated {
					parts--
				}
				if c.predict {
					parts++
				}
				unit := l.neuronBytes(parts)
				room := unit*int64(ff+c.slots) + 64*int64(parts)
				inRAM := must(cpu.New(cpu.Options{Threads: threads}))
				defer inRAM.Close()
				onDisk := must(cpu.New(cpu.Options{Threads: threads, UnitCache: room}))
				defer onDisk.Close()
				devices := []*cpu.Device{inRAM, onDisk}
				weights := [2][]compute.SparseWeights{l.bind(t, inRAM, c.act, c.gated, false, false), l.bind(t, onDisk, c.act, c.gated, true, c.predict)}
				if err := onDisk.Keep(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				if use := onDisk.Usage().Units; use.Kept > room || use.Units != layers*ff || use.Slots > int64(c.slots+ff) || use.Slots <= ff {
					t.Fatalf("%+v, want some %d slots", use, c.slots+ff)
				}
				for step, tokens := range []int{1, 1, 3, most, 1, 8, 1, 20, 1, 2} {
					x, words := make([]float32, tokens*embd), make([]uint32, tokens*ff/32)
					for i := range x {
						x[i] = float32(r.NormFloat64())
					}
					share := 0.1
					if step == 4 || step == 7 {
						share = 0.7
					}
					for i := range tokens * ff {
						if r.Float64() < share {
							words[i/32] |= 1 << (i % 32)
						}
					}
					var got [2][]float32
					for i, d := range devices {
						d.Step(tokens)
						in := must(d.Tensor(tokens, embd))
						copy(d.Data(in), x)
						set := compute.Set{Rows: tokens, N: ff}
						if c.predict && step != 5 {
							set = must(d.Set(tokens, ff))
							d.FillSet(set, words, ff/32, 0)
						}
						var outs []compute.Tensor
						for range layers {
							outs = append(outs, must(d.Tensor(tokens, embd)))
						}
						err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens), Decode: min(tokens, 4)}, func(v compute.Verbs) {
							for j := range layers {
								if step > 5 { // first the layer that the last prompt computed last
									j = layers - 1 - j
								}
								v.SparseFFN(outs[j], in, set, weights[i][j])
							}
						})
						if err != nil {
							t.Fatal(err)
						}
						for _, out := range outs {
							got[i] = append(got[i], d.Data(out)...)
						}
					}
					if !slices.Equal(got[0], got[1]) {
						t.Fatalf("step %d of %d tokens: outputs differ from those of neurons in RAM", step, tokens)
					}
				}
				for j := range layers {
					want, have := *weights[0][j].Count, *weights[1][j].Count
					if want.Bytes, have.Bytes, want.RAM, have.RAM = 0, 0, 0, 0; want != have || want.Active == 0 {
						t.Errorf("layer %d: counted %+v, in RAM %+v", j, have, want)
					}
				}
				use := onDisk.Usage().Units
				if all := c.slots == layers*ff; use.Hits == 0 || all && (use.Misses > 0 || use.Reads > layers*ff) || !all && use.Misses == 0 {
					t.Errorf("%+v with %d slots", use, c.slots)
				}
			})
		}
	}
}

// TestNeuronCannotBeRead: a step that needs a neuron, or a layer, which the disk does not give, or not as it was written,
// fails with the file's name, and later steps that do not need it succeed.
func TestNeuronCannotBeRead(t *testing.T) {
	const embd, ff, layers = 256, 256, 8
	l := newNeuronLayers(t, testenv.Rand(t), quant.Q8_0, layers, embd, ff, true, false)
	d := must(cpu.New(cpu.Options{Threads: 2, UnitCache: l.neuronBytes(3) * (ff + 64)}))
	defer d.Close()
	w := l.bind(t, d, compute.Activation{Kind: compute.ReLU}, true, true, true)[0]
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	damage(t, l.file.Path(), l.at[0][2]+100*l.stride)
	if err := os.Truncate(l.file.Path(), l.at[0][0]+200*l.stride); err != nil {
		t.Fatal(err)
	}
	run := func(tokens int, neurons ...int) error {
		words := make([]uint32, tokens*ff/32)
		for _, n := range neurons {
			for t := range tokens {
				words[t*ff/32+n/32] |= 1 << (n % 32)
			}
		}
		x, out, set := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Set(tokens, ff))
		d.FillSet(set, words, ff/32, 0)
		return d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens), Decode: 1}, func(v compute.Verbs) { v.SparseFFN(out, x, set, w) })
	}
	many := make([]int, 150)
	for i := range many {
		many[i] = i
	}
	for range 2 {
		for _, err := range []error{run(1, 3, 199, 240, 250), run(20, many...)} {
			if err == nil || !strings.Contains(err.Error(), l.file.Path()) {
				t.Errorf("%v, want one that names the file", err)
			}
		}
		if err := run(1, 100); err == nil || !strings.Contains(err.Error(), "neuron 100") {
			t.Errorf("a damaged row: %v", err)
		}
		if err := run(1, 2, 150, 199); err != nil {
			t.Error(err)
		}
	}
}

// TestLayerAheadCannotBeRead: a layer that could not be read ahead is read again by the step that needs it.
func TestLayerAheadCannotBeRead(t *testing.T) {
	const embd, ff, layers, tokens = 256, 64, 12, 20
	l := newNeuronLayers(t, testenv.Rand(t), quant.Q8_0, layers, embd, ff, true, false)
	d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: l.neuronBytes(3) * ff * 9})) // two layers, and half of all
	defer d.Close()
	weights := l.bind(t, d, compute.Activation{Kind: compute.ReLU}, true, true, true)
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	x, out, set := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Set(tokens, ff))
	d.FillSet(set, slices.Repeat([]uint32{math.MaxUint32}, tokens*ff/32), ff/32, 0)
	last := l.dense[1][2] + int64((ff-1)*l.typ.RowBytes(embd))
	damage(t, l.file.Path(), last)
	for layer := range 2 {
		if err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens)}, func(v compute.Verbs) {
			v.SparseFFN(out, x, set, weights[layer])
		}); err != nil {
			t.Fatal(err)
		}
		if layer == 0 {
			damage(t, l.file.Path(), last) // as it was
		}
	}
}

// TestNoRoomForLayer: memory that cannot hold a layer for prompts is refused with what it takes.
func TestNoRoomForLayer(t *testing.T) {
	const embd, ff = 256, 4096
	l := newNeuronLayers(t, testenv.Rand(t), quant.Q8_0, 1, embd, ff, true, false)
	d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: 1 << 20}))
	defer d.Close()
	l.bind(t, d, compute.Activation{Kind: compute.ReLU}, true, true, true)
	if err := d.Keep(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "4 MiB") {
		t.Error(err)
	}
}

// TestNeuronsAreForeseen: neurons that the next layer's predictor chooses from this layer's residual are read before that
// layer's turn, as many as guesses may cost, so that no other is missed where it chooses from the same; and guesses
// change no byte.
func TestNeuronsAreForeseen(t *testing.T) {
	const embd, ff, rank = 256, 512, 32
	r := testenv.Rand(t)
	l := newNeuronLayers(t, r, quant.Q4_0, 2, embd, ff, true, false)
	relu := compute.Activation{Kind: compute.ReLU}
	inRAM := must(cpu.New(cpu.Options{Threads: 2}))
	defer inRAM.Close()
	onDisk := must(cpu.New(cpu.Options{Threads: 2, UnitCache: l.neuronBytes(3) * (ff + 300)}))
	defer onDisk.Close()
	floats := func(n int, middle float64) []byte {
		values, data := make([]float32, n), make([]byte, 4*n)
		for i := range values {
			values[i] = float32(middle + r.NormFloat64())
		}
		quant.Encode(quant.F32, data, values)
		return data
	}
	w1, w2, scale := floats(rank*embd, 0), floats(ff*rank, 0), floats(embd, 1)
	devices := []*cpu.Device{inRAM, onDisk}
	var weights [2][]compute.SparseWeights
	var fc1, fc2 [2]*compute.Matrix
	var norm [2]*compute.Vector
	for i, d := range devices {
		weights[i] = l.bind(t, d, relu, true, i == 1, true)
		fc1[i] = must(d.Matrix(compute.Source{Name: "fc1", Type: quant.F32, Rows: rank, Cols: embd, Data: w1}, compute.Dense))
		fc2[i] = must(d.Matrix(compute.Source{Name: "fc2", Type: quant.F32, Rows: ff, Cols: rank, Data: w2}, compute.Dense))
		norm[i] = must(d.Vector(compute.Source{Name: "norm", Type: quant.F32, Rows: 1, Cols: embd, Data: scale}))
	}
	if err := onDisk.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for step := range 9 {
		tokens := 1 + step%3
		x := make([]float32, tokens*embd)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		var got [2][]float32
		for i, d := range devices {
			in, y, out, other := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd))
			hidden, logits, set := must(d.Tensor(tokens, rank)), must(d.Tensor(tokens, ff)), must(d.Set(tokens, ff))
			copy(d.Data(in), x)
			err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens), Decode: tokens, Threshold: 150}, func(v compute.Verbs) {
				v.RMSNorm(y, in, norm[i], 1e-5)
				v.Predict(set, y, hidden, logits, fc1[i], fc2[i])
				v.Foresee(compute.Guess{
					X: in, Norm: norm[i], Eps: 1e-5, H: must(d.Tensor(tokens, embd)), Set: set, Hidden: hidden, Logits: logits, FC1: fc1[i], FC2: fc2[i], Weights: weights[i][1],
				})
				v.SparseFFN(out, y, set, weights[i][0])
				before := d.Usage().Units
				v.RMSNorm(y, in, norm[i], 1e-5)
				v.Predict(set, y, hidden, logits, fc1[i], fc2[i])
				v.SparseFFN(other, y, set, weights[i][1])
				use := d.Usage().Units.Since(before)
				if few := use.GuessesUsed < int64(residency.TunedCache().Burst*float64(d.Usage().Units.Slots)); i == 1 && (use.Misses > 0 && few || use.Uses() == 0) {
					t.Errorf("%+v: neurons were missed that had been foreseen", use)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			got[i] = append(slices.Clone(d.Data(out)), d.Data(other)...)
		}
		if !slices.Equal(got[0], got[1]) {
			t.Fatal("outputs differ from those without guesses")
		}
	}
	if use := onDisk.Usage().Units; use.GuessesUsed == 0 || use.GuessesUsed != use.Guessed {
		t.Errorf("%+v: want guesses, all right", use)
	}
}

// TestNeuronsInSlotsAllocateNothing: a step whose neurons are in slots allocates nothing.
func TestNeuronsInSlotsAllocateNothing(t *testing.T) {
	const embd, ff, tokens = 256, 512, 2
	r := testenv.Rand(t)
	l := newNeuronLayers(t, r, quant.Q4_0, 1, embd, ff, true, false)
	d := must(cpu.New(cpu.Options{Threads: 2, UnitCache: l.neuronBytes(3) * (2*ff + 1)}))
	defer d.Close()
	w := l.bind(t, d, compute.Activation{Kind: compute.ReLU}, true, true, true)[0]
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	x, out, set := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Set(tokens, ff))
	for i := range d.Data(x) {
		d.Data(x)[i] = float32(r.NormFloat64())
	}
	words := make([]uint32, tokens*ff/32)
	for i := range words {
		words[i] = 1 << (i % 32)
	}
	d.FillSet(set, words, ff/32, 0)
	p := &compute.Params{Tokens: make([]int32, tokens), Decode: tokens}
	body := func(v compute.Verbs) { v.SparseFFN(out, x, set, w) }
	n := testing.AllocsPerRun(10, func() {
		d.Step(tokens)
		if err := d.Run(compute.Segment{}, p, body); err != nil {
			t.Fatal(err)
		}
	})
	if use := d.Usage().Units; n >= 1 || use.Misses > 0 || use.Hits == 0 { // a pool of scratch may be emptied by the collector
		t.Errorf("%v allocations, %+v", n, use)
	}
}

// TestNeuronsFromDiskAllocateNothing: a step whose neurons must be read allocates nothing once a few have been.
func TestNeuronsFromDiskAllocateNothing(t *testing.T) {
	const embd, ff, layers = 256, 1024, 4
	r := testenv.Rand(t)
	l := newNeuronLayers(t, r, quant.Q4_0, layers, embd, ff, true, false)
	d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: l.neuronBytes(3) * (ff + ff/8)}))
	defer d.Close()
	weights := l.bind(t, d, compute.Activation{Kind: compute.ReLU}, true, true, true)
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	x, out, set := must(d.Tensor(1, embd)), must(d.Tensor(1, embd)), must(d.Set(1, ff))
	for i := range d.Data(x) {
		d.Data(x)[i] = float32(r.NormFloat64())
	}
	words, turn := make([]uint32, ff/32), 0
	p := &compute.Params{Tokens: make([]int32, 1), Decode: 1}
	body := func(v compute.Verbs) {
		for _, w := range weights {
			v.SparseFFN(out, x, set, w)
		}
	}
	step := func() {
		for i := range words { // others than those of the steps before
			words[i] = 0b1001 << (turn % 28)
		}
		turn += 4
		d.FillSet(set, words, ff/32, 0)
		d.Step(1)
		if err := d.Run(compute.Segment{}, p, body); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		step()
	}
	n := testing.AllocsPerRun(40, step)
	if use := d.Usage().Units; n >= 1 || use.Misses < 40*ff/32 {
		t.Errorf("%v allocations, %+v", n, use)
	}
}
