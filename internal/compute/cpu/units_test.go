package cpu_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// expertLayer is a layer of random experts, in a file and in memory.
type expertLayer struct {
	embd, ff, n int
	typ         quant.Type
	file        *disk.File
	parts       []expertPart
}

type expertPart struct {
	name       string
	rows, cols int
	data       []byte
	offset     int64
}

// newExpertLayer writes a layer whose matrices begin at odd places of its file.
func newExpertLayer(t *testing.T, typ quant.Type, embd, ff, n int) *expertLayer {
	t.Helper()
	r := testenv.Rand(t)
	l := &expertLayer{embd: embd, ff: ff, n: n, typ: typ}
	content := make([]byte, 32)
	for _, p := range []expertPart{{name: "gate", rows: ff, cols: embd}, {name: "up", rows: ff, cols: embd}, {name: "down", rows: embd, cols: ff}} {
		row := typ.RowBytes(p.cols)
		p.data = make([]byte, n*p.rows*row)
		values := make([]float32, p.cols)
		for i := range n * p.rows {
			for j := range values {
				values[j] = float32(r.NormFloat64()) / 8
			}
			quant.Encode(typ, p.data[i*row:][:row], values)
		}
		p.offset = int64(len(content))
		content = append(content, p.data...)
		content = append(content, make([]byte, 96)...)
		l.parts = append(l.parts, p)
	}
	path := filepath.Join(t.TempDir(), "experts")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	l.file = must(disk.Open(path))
	t.Cleanup(func() { l.file.Close() })
	return l
}

// expertBytes returns what an expert takes in a file.
func (l *expertLayer) expertBytes() int64 {
	return int64(2*l.ff*l.typ.RowBytes(l.embd) + l.embd*l.typ.RowBytes(l.ff))
}

// bind takes the layer's experts in, which stay on disk if onDisk is set.
func (l *expertLayer) bind(t *testing.T, d *cpu.Device, exact, onDisk bool) compute.ExpertWeights {
	t.Helper()
	var m []*compute.Matrix
	for _, p := range l.parts {
		use := compute.Dense
		if exact {
			if use = compute.Rows; p.name == "down" {
				use = compute.Columns
			}
		}
		src := compute.Source{Name: p.name, Type: l.typ, Rows: l.n * p.rows, Cols: p.cols, Data: p.data, Stack: l.n}
		if onDisk {
			size := p.rows * l.typ.RowBytes(p.cols)
			src.Disk = &compute.OnDisk{File: l.file, Offset: p.offset, Stride: int64(size), Units: l.n, Verify: func(unit int, rows []byte) error {
				if !bytes.Equal(rows, p.data[unit*size:][:size]) {
					return fmt.Errorf("%s: other rows than those of unit %d", p.name, unit)
				}
				return nil
			}}
			src.Data = make([]byte, len(p.data)) // which is not read
		}
		m = append(m, must(d.Matrix(src, use)))
	}
	if onDisk {
		if err := d.Bundle(nil, m...); err != nil {
			t.Fatal(err)
		}
	}
	act := compute.Activation{Kind: compute.SiLU}
	if exact {
		act.Kind = compute.ReLU
	}
	return compute.ExpertWeights{Gate: m[0], Up: m[1], Down: m[2], Act: act, Exact: exact}
}

// TestExpertsOnDisk: experts on disk give the bytes that they give in RAM, whatever number of slots there is, with one
// token, a few and a prompt, whose experts do not fit into the slots together.
func TestExpertsOnDisk(t *testing.T) {
	const embd, n, used, most = 256, 24, 4, 48
	for _, typ := range []quant.Type{quant.F16, quant.Q4_0, quant.Q6_K} {
		ff := 512
		if typ == quant.Q4_0 { // rows that are no whole superblocks
			ff = 480
		}
		for _, exact := range []bool{false, true} {
			for _, slots := range []int{4, 9, 24} {
				t.Run(fmt.Sprintf("%s/exact=%t/slots=%d", typ, exact, slots), func(t *testing.T) {
					l := newExpertLayer(t, typ, embd, ff, n)
					inRAM := must(cpu.New(cpu.Options{Threads: 2}))
					defer inRAM.Close()
					// packed rows take more than those in the file, by their padding
					room := int64(slots) * l.expertBytes() * 7 / 5
					onDisk := must(cpu.New(cpu.Options{Threads: 2, UnitCache: room}))
					defer onDisk.Close()
					devices := []*cpu.Device{inRAM, onDisk}
					weights := []compute.ExpertWeights{l.bind(t, inRAM, exact, false), l.bind(t, onDisk, exact, true)}
					if err := onDisk.Keep(context.Background(), nil); err != nil {
						t.Fatal(err)
					}
					if use := onDisk.Usage().Units; use.Kept > room || use.Slots < int64(slots) || use.Units != n {
						t.Fatalf("%+v, want some %d slots in %d bytes", use, slots, room)
					}
					r := testenv.Rand(t)
					for _, tokens := range []int{1, 1, most, 1, 3, 1, 20, 1} {
						xs, ls := make([]float32, tokens*embd), make([]float32, tokens*n)
						for i := range xs {
							xs[i] = float32(r.NormFloat64())
						}
						for i := range ls {
							ls[i] = float32(r.NormFloat64())
						}
						var got [2][]float32
						for i, d := range devices {
							x, out, logits := must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, embd)), must(d.Tensor(tokens, n))
							copy(d.Data(x), xs)
							copy(d.Data(logits), ls)
							choice := must(d.Choice(tokens, used, n))
							err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, tokens), Decode: min(tokens, 4)}, func(v compute.Verbs) {
								v.Route(choice, logits, nil, nil, compute.Routing{Score: compute.Softmax, Scale: 1})
								v.Experts(out, x, choice, weights[i])
							})
							if err != nil {
								t.Fatal(err)
							}
							got[i] = slices.Clone(d.Data(out))
						}
						if !slices.Equal(got[0], got[1]) {
							t.Fatalf("%d tokens: outputs differ from those of experts in RAM", tokens)
						}
					}
					use := onDisk.Usage().Units
					if use.Slots < n && (use.Misses == 0 || use.Hits == 0) || use.Slots == n && use.Misses > 0 {
						t.Errorf("%+v with %d slots", use, slots)
					}
				})
			}
		}
	}
}

// TestLeastUnits: experts of two sizes need room for one of each, and no more is lent than leaves this room.
func TestLeastUnits(t *testing.T) {
	large, small := newExpertLayer(t, quant.F16, 256, 512, 6), newExpertLayer(t, quant.F16, 256, 32, 24)
	least := large.expertBytes() + small.expertBytes()
	for _, room := range []int64{least - 1, least, 2 * least} {
		d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: room}))
		large.bind(t, d, false, true)
		small.bind(t, d, false, true)
		for _, bytes := range []int64{room / 2, room/2 + 1} {
			if lent := d.Lend(1, bytes); lent != (room == 2*least && bytes == room/2) {
				t.Errorf("%d of %d bytes are lent: %v", bytes, room, lent)
			}
		}
		if err := d.Keep(context.Background(), nil); (err == nil) != (room >= least) {
			t.Errorf("%d bytes of %d: %v", room, least, err)
		}
		if use := d.Usage().Units; use.Kept > room || room >= least && use.Slots != 2 {
			t.Errorf("%d slots of %d bytes in %d", use.Slots, use.Kept, room)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExpertCannotBeRead: a step that needs an expert which the disk does not give, or not as it was written, fails,
// and later steps that do not need it succeed.
func TestExpertCannotBeRead(t *testing.T) {
	const embd, ff, n = 256, 256, 8
	l := newExpertLayer(t, quant.Q8_0, embd, ff, n)
	d := must(cpu.New(cpu.Options{Threads: 1, UnitCache: 3 * l.expertBytes() * 5 / 4}))
	defer d.Close()
	w := l.bind(t, d, false, true)
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(l.file.Path(), l.parts[2].offset+int64(len(l.parts[2].data))-100); err != nil {
		t.Fatal(err)
	}
	const damaged = 5
	up := l.parts[1]
	damage(t, l.file.Path(), up.offset+int64(damaged*up.rows*l.typ.RowBytes(up.cols)))
	x, out, logits := must(d.Tensor(1, embd)), must(d.Tensor(1, embd)), must(d.Tensor(1, n))
	choice := must(d.Choice(1, 1, n))
	run := func(expert int) error {
		clear(d.Data(logits))
		d.Data(logits)[expert] = 1
		return d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, 1), Decode: 1}, func(v compute.Verbs) {
			v.Route(choice, logits, nil, nil, compute.Routing{Score: compute.Softmax, Scale: 1})
			v.Experts(out, x, choice, w)
		})
	}
	for range 2 {
		if err := run(n - 1); err == nil {
			t.Error("an expert that the file no longer has was computed")
		}
		if err := run(damaged); err == nil || !strings.Contains(err.Error(), "other rows than those of unit 5") {
			t.Errorf("an expert that was damaged: %v", err)
		}
		if err := run(4); err != nil {
			t.Error(err)
		}
	}
}

// damage changes a byte of a file.
func damage(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	if _, err = f.ReadAt(b, at); err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b, at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestExpertsAreForeseen: experts that the next layer's router chooses from this layer's residual are read before that
// layer's turn, so that none is missed where it chooses from the same: an RMSNorm, a LayerNorm, or the residual itself.
func TestExpertsAreForeseen(t *testing.T) {
	for _, reads := range []string{"an RMSNorm", "an RMSNorm that is shifted", "a LayerNorm", "the residual"} {
		t.Run(reads, func(t *testing.T) { testExpertsAreForeseen(t, reads) })
	}
}

func testExpertsAreForeseen(t *testing.T, reads string) {
	const embd, ff, n, used = 256, 32, 160, 4 // of as many slots a few may have guesses
	first, second := newExpertLayer(t, quant.Q4_0, embd, ff, n), newExpertLayer(t, quant.Q4_0, embd, ff, n)
	d := must(cpu.New(cpu.Options{Threads: 2, UnitCache: 4 * n * first.expertBytes()}))
	defer d.Close()
	w, next := first.bind(t, d, false, true), second.bind(t, d, false, true)
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	r := testenv.Rand(t)
	floats := func(n int) []byte {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(r.NormFloat64())
		}
		data := make([]byte, 4*n)
		quant.Encode(quant.F32, data, values)
		return data
	}
	router := must(d.Matrix(compute.Source{Name: "router", Type: quant.F32, Rows: n, Cols: embd, Data: floats(n * embd)}, compute.Precise))
	norm := must(d.Vector(compute.Source{Name: "norm", Type: quant.F32, Rows: 1, Cols: embd, Data: floats(embd)}))
	bias := must(d.Vector(compute.Source{Name: "bias", Type: quant.F32, Rows: 1, Cols: n, Data: floats(n)}))
	shift := must(d.Vector(compute.Source{Name: "shift", Type: quant.F32, Rows: 1, Cols: embd, Data: floats(embd)}))
	how := compute.Routing{Score: compute.Sigmoid, Scale: 1}
	x, y, out, logits := must(d.Tensor(1, embd)), must(d.Tensor(1, embd)), must(d.Tensor(1, embd)), must(d.Tensor(1, n))
	choice := must(d.Choice(1, used, n))
	for range 5 {
		for i := range d.Data(x) {
			d.Data(x)[i] = float32(r.NormFloat64())
		}
		var before, after compute.UnitUse
		err := d.Run(compute.Segment{}, &compute.Params{Tokens: make([]int32, 1), Decode: 1}, func(v compute.Verbs) {
			g := compute.ExpertGuess{X: x, Norm: norm, Eps: 1e-5, Router: router, RouterBias: bias, Bias: bias, Used: used, Count: n, How: how, Weights: next}
			switch reads {
			case "an RMSNorm":
				v.RMSNorm(y, x, norm, 1e-5)
			case "an RMSNorm that is shifted":
				v.RMSNorm(y, x, norm, 1e-5)
				v.Shift(y, shift)
				g.Shift = shift
			case "a LayerNorm":
				v.LayerNorm(y, x, norm, shift, 1e-5)
				g.Shift, g.Centered = shift, true
			default:
				y, g.Norm = x, nil
			}
			v.MatMul(y, compute.Products{{Out: logits, W: router, Bias: bias}})
			v.Route(choice, logits, bias, nil, how)
			v.ForeseeExperts(g)
			v.Experts(out, y, choice, w)
			before = d.Usage().Units
			v.Experts(out, y, choice, next)
			after = d.Usage().Units
		})
		if err != nil {
			t.Fatal(err)
		}
		if use := after.Since(before); use.Misses > 0 || use.Uses() != used {
			t.Errorf("%+v: experts were missed that had been foreseen", use)
		}
	}
	if use := d.Usage().Units; use.GuessesUsed == 0 || use.GuessesUsed != use.Guessed {
		t.Errorf("%+v: want guesses, all right", use)
	}
}
