package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// stage is one playing of a script on one device.
type stage struct {
	t   testing.TB
	dev subject
	*material
	name            string
	all             int     // tokens of the script
	few             int     // see script
	halves, bfloats bool    // see script
	step            []int32 // those of them that are in this playing's step
	decode          int     // see compute.Params
	pinned          bool    // weights stay in the mapped file

	// params has the values of all tokens; run cuts them to the step. Tokens may be nil: 0, 1, 2…
	params compute.Params
	placed []placed
	kept   []output
}

// output is a tensor's rows after the script.
type output struct {
	label string
	rows  [][]float32
	bound bound
	total bool // over all tokens: there is no row for each
}

// material is shared by the playings of a script: its numbers in the order they are asked for, and what they are
// encoded to. To make them is slower than anything else.
type material struct {
	rng      *rand.Rand
	drawn    [][]float32
	encoded  []encoded
	nDrawn   int // in this playing
	nEncoded int
}

type encoded struct {
	data   []byte
	values []float32
}

func (m *material) rewind() { m.nDrawn, m.nEncoded = 0, 0 }

// normal are normal numbers, the caller's to change.
func (m *material) normal(n int) []float32 {
	if m.nDrawn == len(m.drawn) {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(m.rng.NormFloat64())
		}
		m.drawn = append(m.drawn, x)
	}
	m.nDrawn++
	return slices.Clone(m.drawn[m.nDrawn-1])
}

// encode is values [rows, cols] as typ, and what that decodes to.
func (m *material) encode(typ quant.Type, rows, cols int, values []float32) encoded {
	if m.nEncoded == len(m.encoded) {
		size := typ.RowBytes(cols)
		e := encoded{make([]byte, rows*size), make([]float32, rows*cols)}
		for r := range rows {
			quant.Imitate(typ, e.data[r*size:][:size], values[r*cols:][:cols])
			quant.Decode(typ, e.values[r*cols:][:cols], e.data[r*size:][:size])
		}
		m.encoded = append(m.encoded, e)
	}
	m.nEncoded++
	return m.encoded[m.nEncoded-1]
}

// placed is a tensor with known content: guard rows that no verb may write.
type placed struct {
	t     compute.Tensor // guard rows included
	rows  int            // the script's own rows
	data  []float32
	input bool // the script's own rows must stay as they are, too
}

// Every tensor has guardRows more than its script works on, filled with canary: a view's end is where verbs stop
// writing.
const (
	guardRows = 4
	canary    = -12345
)

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %s: %v", s.dev.Name(), s.name, err)
	}
}

// weight is a matrix and what its device must take its elements for.
type weight struct {
	*compute.Matrix
	values  []float32 // decoded [Rows, Cols]
	halves  bool      // products may be computed in halves
	bfloats bool      // products of prompts may be computed in bfloat16
}

// matrix encodes values [rows, cols] as typ. A script makes the same matrices in all its playings.
func (s *stage) matrix(typ quant.Type, rows, cols int, values []float32, use compute.Use) weight {
	s.t.Helper()
	return s.ordered(typ, rows, cols, values, use, nil)
}

// ordered returns a matrix that loads its neurons in another order.
func (s *stage) ordered(typ quant.Type, rows, cols int, values []float32, use compute.Use, order []int32) weight {
	s.t.Helper()
	return s.stacked(typ, 0, rows, cols, values, use, order)
}

// stacked returns n matrices as a stack of this many rows; n is 0 for a single matrix.
func (s *stage) stacked(typ quant.Type, n, rows, cols int, values []float32, use compute.Use, order []int32) weight {
	s.t.Helper()
	e := s.encode(typ, rows, cols, values)
	src := compute.Source{Name: s.name, Type: typ, Rows: rows, Cols: cols, Data: e.data, Pinned: s.pinned, Order: order, Stack: n}
	if !s.pinned {
		src.Data = slices.Clone(e.data)
	}
	m, err := s.dev.Matrix(src, use)
	s.must(err)
	if !s.pinned {
		clear(src.Data) // it was borrowed
	}
	return weight{m, e.values, s.halves, s.bfloats}
}

// table returns an F32 matrix for one playing, used in place.
func (s *stage) table(rows, cols int, values []float32) *compute.Matrix {
	s.t.Helper()
	data := make([]byte, 4*len(values))
	quant.Encode(quant.F32, data, values)
	m, err := s.dev.Matrix(compute.Source{Name: s.name, Type: quant.F32, Rows: rows, Cols: cols, Data: data, Pinned: true}, compute.Lookup)
	s.must(err)
	return m
}

// vector returns an F32 weight.
func (s *stage) vector(values []float32) *compute.Vector {
	s.t.Helper()
	data := make([]byte, 4*len(values))
	quant.Encode(quant.F32, data, values)
	v, err := s.dev.Vector(compute.Source{Name: s.name, Type: quant.F32, Rows: 1, Cols: len(values), Data: data})
	s.must(err)
	clear(data)
	return v
}

// place makes a tensor of n rows and writes them, by the one verb that takes numbers from outside: Embed from an F32
// table.
func (s *stage) place(n, cols int, row func(i int) []float32, input bool) compute.Tensor {
	s.t.Helper()
	data := make([]float32, (n+guardRows)*cols)
	for i := range data {
		data[i] = canary
	}
	for i := range n {
		if row != nil {
			copy(data[i*cols:][:cols], row(i))
		}
	}
	full, err := s.dev.Tensor(n+guardRows, cols)
	s.must(err)
	table := s.table(full.Rows, cols, data)
	p := compute.Params{Tokens: everyone(full.Rows)}
	s.must(s.dev.Run(compute.Segment{Name: "place", Rows: full.Rows}, &p, func(v compute.Verbs) { v.Embed(full, table) }))
	s.placed = append(s.placed, placed{full, n, data, input})
	return full.First(n)
}

// input returns a tensor with the step's rows of values [all, cols].
func (s *stage) input(cols int, values []float32) compute.Tensor {
	s.t.Helper()
	return s.place(len(s.step), cols, func(i int) []float32 { return values[int(s.step[i])*cols:][:cols] }, true)
}

// inOut returns an input that the script's verbs change.
func (s *stage) inOut(cols int, values []float32) compute.Tensor {
	s.t.Helper()
	x := s.input(cols, values)
	s.placed[len(s.placed)-1].input = false
	return x
}

// output returns a tensor with a row for each of the step's tokens.
func (s *stage) output(cols int) compute.Tensor {
	s.t.Helper()
	return s.place(len(s.step), cols, nil, false)
}

// run runs body with the step's params.
func (s *stage) run(body func(compute.Verbs)) {
	s.t.Helper()
	p := s.params
	p.Decode = s.decode
	p.Tokens, p.Pos, p.Turns, p.Types, p.Seq = ofStep(s, p.Tokens), ofStep(s, p.Pos), ofStep(s, p.Turns), ofStep(s, p.Types), ofStep(s, p.Seq)
	p.Given, p.Bounds, p.Axes = ofStep(s, p.Given), ofStep(s, p.Bounds), slices.Clone(p.Axes)
	for i, axis := range p.Axes {
		p.Axes[i] = ofStep(s, axis)
	}
	if p.Tokens == nil {
		p.Tokens = slices.Clone(s.step)
	}
	s.must(s.dev.Run(p.Segment(s.name), &p, body))
}

// ofStep returns the step's part of a slice over all tokens.
func ofStep[T any](s *stage, of []T) []T {
	if of == nil {
		return nil
	}
	cut := make([]T, len(s.step))
	for i, t := range s.step {
		cut[i] = of[t]
	}
	return cut
}

// read returns row i of t.
func (s *stage) read(t compute.Tensor, i int) []float32 {
	row, err := s.dev.Read(t, i)
	if err != nil {
		s.t.Fatal(err)
	}
	return row
}

// keep remembers t's rows.
func (s *stage) keep(label string, t compute.Tensor, b bound) {
	o := output{label: label, bound: b}
	for i := range t.Rows {
		o.rows = append(o.rows, slices.Clone(s.read(t, i)))
	}
	s.kept = append(s.kept, o)
}

// keepTotal remembers numbers over all tokens.
func (s *stage) keepTotal(label string, row []float32, b bound) {
	s.kept = append(s.kept, output{label: label, rows: [][]float32{row}, bound: b, total: true})
}

// untouched says what was written that should not have been.
func (s *stage) untouched() error {
	for _, p := range s.placed {
		from := p.rows
		if p.input {
			from = 0
		}
		for r := from; r < p.t.Rows; r++ {
			for c, v := range s.read(p.t, r) {
				if want := p.data[r*p.t.Cols+c]; math.Float32bits(v) != math.Float32bits(want) {
					if r >= p.rows {
						return fmt.Errorf("row %d column %d, behind a tensor of %d×%d, was overwritten with %g", r, c, p.rows, p.t.Cols, v)
					}
					return fmt.Errorf("input row %d column %d was %g and became %g", r, c, want, v)
				}
			}
		}
	}
	return nil
}
