package devicetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// rowScripts returns the verbs that process every token separately, except MatMul.
func rowScripts() []script {
	return slices.Concat(lookupScripts(), normScripts(), residualScripts(), activateScripts(), numberlessScripts(), addScripts(), insertScripts(), scaleScripts(), softCapScripts(), clampScripts(), copyScripts(),
		streamScripts(), connectionScripts(), ngramScripts(), hostScripts())
}

func lookupScripts() (all []script) {
	const rows = 11
	for _, typ := range quant.Types() {
		for _, cols := range columns(typ) {
			all = append(all, script{name: fmt.Sprintf("Embed/%s/%d columns", typ, cols), tokens: 12, play: func(s *stage) {
				table := s.matrix(typ, rows, cols, s.hostileRows(rows, cols), compute.Lookup)
				s.params.Tokens = []int32{10, 0, 3, 3, 9, 1, 2, 4, 5, 6, 7, 8}
				out := s.output(cols)
				s.run(func(v compute.Verbs) { v.Embed(out, table.Matrix) })
				s.keep("row", out, exact)
			}}, script{name: fmt.Sprintf("AddPosition/%s/%d columns", typ, cols), tokens: 5, play: func(s *stage) {
				table := s.matrix(typ, rows, cols, s.hostileRows(rows, cols), compute.Lookup)
				s.params.Pos = []int32{0, 8, 3, 3, 1}
				x, y := s.inOut(cols, s.normal(s.all*cols)), s.inOut(cols, s.normal(s.all*cols))
				s.run(func(v compute.Verbs) {
					v.AddPosition(x, table.Matrix, 2)
					v.AddPosition(y, table.Matrix, 0)
				})
				s.keep("offset 2", x, exact)
				s.keep("offset 0", y, exact)
			}}, script{name: fmt.Sprintf("AddType/%s/%d columns", typ, cols), tokens: 5, play: func(s *stage) {
				table := s.matrix(typ, rows, cols, s.hostileRows(rows, cols), compute.Lookup)
				x := s.inOut(cols, s.normal(s.all*cols))
				s.run(func(v compute.Verbs) { v.AddType(x, table.Matrix) })
				s.keep("first type", x, exact)
				s.params.Types = []int32{0, 10, 1, 1, 0}
				s.run(func(v compute.Verbs) { v.AddType(x, table.Matrix) })
				s.keep("types", x, exact)
			}})
		}
	}
	for i, rows := range [][]int32{{6}, {0, 0, 3}, {5, 1, 1, 0, 6, 6, 2, 3, 4}, {0, 1, 2, 3, 4, 5, 6}, {}} {
		all = append(all, script{name: fmt.Sprintf("Gather/rows %v", rows), tokens: 7, whole: true, play: func(s *stage) {
			cols := 33 + i
			s.params.Out = rows
			x := s.input(cols, s.normal(s.all*cols))
			out := s.place(len(rows), cols, nil, false)
			s.run(func(v compute.Verbs) { v.Gather(out, x) })
			s.keep("row", out, exact)
		}})
	}
	return append(all, script{name: "Precede/sequences", tokens: 9, whole: true, play: func(s *stage) {
		const cols = 33
		s.params.Seq, s.params.Pos = []int32{0, 0, 0, 1, 1, 2, 3, 3, 0}, []int32{4, 5, 6, 0, 1, 7, 2, 4, 7}
		s.params.Before = [][]float32{s.normal(cols), nil, s.normal(cols)} // the last sequence has none
		x := s.input(cols, s.normal(s.all*cols))
		out := s.output(cols)
		s.run(func(v compute.Verbs) { v.Precede(out, x) })
		s.keep("row", out, exact)
	}})
}

// uneven returns rows of very different magnitude, one of them zero. [n, cols]
func (s *stage) uneven(n, cols int) []float32 {
	x := s.normal(n * cols)
	for i := range x {
		x[i] *= []float32{1, 100, 1e-3, 0, 1e10}[i/cols%5]
	}
	return x
}

func normScripts() (all []script) {
	for _, cols := range []int{1, 7, 32, 77, 1000, 4096} {
		for _, n := range []int{6, 33} { // a single token is a step of each, too
			if n == 6 && cols != 77 {
				continue // rows are equal, whatever their number
			}
			for _, inPlace := range []bool{false, true} {
				add := func(verb string, offset float32, play func(v compute.Verbs, dst, x compute.Tensor, w, b *compute.Vector), wanted func(x, w, b []float32) bound) {
					all = append(all, script{name: fmt.Sprintf("%s/%d columns/%d tokens/in place %t", verb, cols, n, inPlace), tokens: n, play: func(s *stage) {
						values := s.uneven(s.all, cols)
						for i := range values {
							values[i] += offset
						}
						w, b := s.normal(cols), s.normal(cols)
						x, weight, bias := s.inOut(cols, values), s.vector(w), s.vector(b)
						dst := x
						if !inPlace {
							dst = s.output(cols)
						}
						s.run(func(v compute.Verbs) { play(v, dst, x, weight, bias) })
						s.keep("normed", dst, wanted(values, w, b))
					}})
				}
				const eps = 1e-5
				add("RMSNorm", 0, func(v compute.Verbs, dst, x compute.Tensor, w, _ *compute.Vector) { v.RMSNorm(dst, x, w, eps) },
					func(_, _, _ []float32) bound { return element(normTolerance) })
				add("LayerNorm", 5, func(v compute.Verbs, dst, x compute.Tensor, w, b *compute.Vector) { v.LayerNorm(dst, x, w, b, eps) },
					func(x, w, b []float32) bound { return layerNorm(x, w, b, eps) })
				add("LayerNorm without bias", -5, func(v compute.Verbs, dst, x compute.Tensor, w, _ *compute.Vector) { v.LayerNorm(dst, x, w, nil, eps) },
					func(x, w, _ []float32) bound { return layerNorm(x, w, nil, eps) })
			}
		}
	}
	return append(all, script{name: "RMSNorm/heads", tokens: 5, play: func(s *stage) {
		const heads, headDim = 6, 16
		x := s.inOut(heads*headDim, s.uneven(s.all, heads*headDim))
		w := s.vector(s.normal(headDim))
		s.run(func(v compute.Verbs) { v.RMSNorm(x.Split(headDim), x.Split(headDim), w, 1e-6) })
		s.keep("heads", x, element(normTolerance))
	}})
}

// layerNorm bounds by the terms before they cancel: x and the mean, over the deviation, and the bias.
func layerNorm(x, w, b []float32, eps float64) bound {
	return func(bounds []float64, _ []float32, r int) {
		row := x[r*len(w):][:len(w)]
		mean, square := 0.0, 0.0
		for _, v := range row {
			mean += float64(v) / float64(len(w))
			square += float64(v) * float64(v) / float64(len(w))
		}
		root := math.Sqrt(max(0, square-mean*mean) + eps)
		for c := range bounds {
			bounds[c] = normTolerance * (math.Abs(float64(row[c])) + math.Abs(mean)) * math.Abs(float64(w[c])) / root
			if b != nil {
				bounds[c] += normTolerance * math.Abs(float64(b[c]))
			}
		}
	}
}

func activateScripts() (all []script) {
	for _, act := range slices.Concat(activations(), alone()) {
		for _, cols := range []int{1, 7, 96, 352} {
			for _, n := range []int{5, 130} { // a single token is a step of each, too
				if (n == 130) != (cols == 96) {
					continue // more tokens are more rows of the same, and every width has few
				}
				for _, how := range []string{"gated", "gated in place", "ungated", "ungated in place"} {
					all = append(all, script{name: fmt.Sprintf("Activate/%s/%d columns/%d tokens/%s", named(act), cols, n, how), tokens: n, play: func(s *stage) {
						playActivate(s, act, cols, how == "gated" || how == "gated in place", how == "gated in place" || how == "ungated in place")
					}})
				}
			}
		}
	}
	return all
}

// edges are gates that activations change their form at, or overflow.
func edges() []float32 {
	return []float32{0, 0.01, 0.010000001, -0.5, -0.49999997, 1e-30, -1e-30, 20, -20, 80, -80, 88.5, -88.5, 104, -104, 1e4, -1e4, 1e15, -1e15}
}

func playActivate(s *stage, act compute.Activation, cols int, gated, inPlace bool) {
	g, u := s.normal(s.all*cols), s.normal(s.all*cols)
	for i := range g {
		if e := edges(); i%3 == 1 {
			g[i] = e[i/3%len(e)]
		}
	}
	gate := s.inOut(cols, g)
	dst := gate
	if !inPlace {
		dst = s.output(cols)
	}
	var up compute.Tensor
	if gated {
		up = s.input(cols, u)
	}
	s.run(func(v compute.Verbs) { v.Activate(dst, gate, up, act) })
	b := element(pieceTolerance)
	if !act.Sparse() || act.Small() {
		b = func(bounds []float64, _ []float32, r int) {
			for c := range bounds {
				x := math.Abs(float64(g[r*cols+c]))
				switch bounds[c] = smoothTolerance * math.Max(x, float64(act.Slope)); {
				case act.Kind == compute.Logistic:
					bounds[c] = smoothTolerance
				case act.Kind == compute.Softplus:
					bounds[c] = smoothTolerance * math.Max(1, x)
				case act.Kind == compute.XIELU && g[r*cols+c] > 0:
					bounds[c] = smoothTolerance * x * (float64(act.Slope) + float64(act.Above)*x)
				case act.Kind == compute.XIELU:
					bounds[c] = smoothTolerance * (2*x + math.Abs(float64(act.Limit)))
				}
				if gated {
					bounds[c] *= math.Max(math.Abs(float64(u[r*cols+c])), float64(act.Limit))
				}
			}
		}
	}
	s.keep("activated", dst, b)
}

func addScripts() (all []script) {
	for _, cols := range []int{1, 7, 33, 4096} {
		for _, n := range []int{3, 33} { // a single token is a step of each, too
			all = append(all, script{name: fmt.Sprintf("Add/%d columns/%d tokens", cols, n), tokens: n, play: func(s *stage) {
				dst, x := s.inOut(cols, s.uneven(s.all, cols)), s.input(cols, s.normal(s.all*cols))
				s.run(func(v compute.Verbs) { v.Add(dst, x) })
				s.keep("sum", dst, exact)
			}})
		}
	}
	return all
}

// insertScripts: rows for which something is given become it, or that is added, and others stay, in steps that have such
// rows and in others.
func insertScripts() (all []script) {
	for _, cols := range []int{1, 33, 4096} {
		for _, n := range []int{9, 40} { // a single token is a step of each, too
			all = append(all, script{name: fmt.Sprintf("Insert/%d columns/%d tokens", cols, n), tokens: n, play: func(s *stage) { playInsert(s, cols) }})
		}
	}
	return all
}

func playInsert(s *stage, cols int) {
	const before, behind = 5, 3 // columns of the given rows that are not inserted
	given := make([][]float32, s.all)
	for i := range given {
		if row := s.normal(before + 2*cols + behind); i%4 != 1 {
			given[i] = row
		}
	}
	x, y := s.inOut(cols, s.normal(s.all*cols)), s.inOut(cols, s.normal(s.all*cols))
	insert := func(v compute.Verbs) {
		v.Insert(x, before, false)
		v.Insert(y, before, true)
		v.Insert(x, before+cols, true)
	}
	for i, rows := range [][][]float32{given, make([][]float32, s.all), nil, given} {
		s.params.Given = rows
		s.run(insert)
		s.keep(fmt.Sprintf("inserted, step %d", i), x, exact)
		s.keep(fmt.Sprintf("added, step %d", i), y, exact)
	}
}

// scaleScripts: every device rounds a product of two floats once, so results are exact.
func scaleScripts() (all []script) {
	for _, cols := range []int{1, 33, 4096} {
		const n = 33 // a step of one of its tokens is played, too
		all = append(all, script{name: fmt.Sprintf("Scale/%d columns/%d tokens", cols, n), tokens: n, play: func(s *stage) {
			x := s.inOut(cols, s.uneven(s.all, cols))
			s.run(func(v compute.Verbs) { v.Scale(x, 1.7) })
			s.keep("scaled", x, exact)
		}})
	}
	return all
}

// softCapScripts: numbers far beyond the limit become it, small ones stay about as they are.
func softCapScripts() (all []script) {
	const limit = 2.5
	for _, cols := range []int{1, 33, 16384} {
		const n = 33 // a step of one of its tokens is played, too
		all = append(all, script{name: fmt.Sprintf("SoftCap/%d columns/%d tokens", cols, n), tokens: n, play: func(s *stage) {
			x := s.inOut(cols, s.uneven(s.all, cols))
			s.run(func(v compute.Verbs) { v.SoftCap(x, limit) })
			s.keep("capped", x, within(capTolerance*limit))
		}})
	}
	return all
}

// clampScripts: numbers within the limits keep every bit.
func clampScripts() (all []script) {
	for _, cols := range []int{1, 33, 4096} {
		const n = 33 // a step of one of its tokens is played, too
		all = append(all, script{name: fmt.Sprintf("Clamp/%d columns/%d tokens", cols, n), tokens: n, play: func(s *stage) {
			x := s.inOut(cols, s.uneven(s.all, cols))
			s.run(func(v compute.Verbs) { v.Clamp(x, -0.5, 0.75) })
			s.keep("clamped", x, exact)
		}})
	}
	return all
}

// copyScripts put heads together from parts, one of them the same for all heads. Columns between the parts stay
// unchanged.
func copyScripts() (all []script) {
	const heads, own, shared, cols = 5, 12, 8, 5*24 + 3
	for _, n := range []int{1, 33} {
		all = append(all, script{name: fmt.Sprintf("CopyColumns/%d tokens", n), tokens: n, play: func(s *stage) {
			x := s.inOut(cols, s.normal(s.all*cols))
			a, b := s.input(heads*own+7, s.normal(s.all*(heads*own+7))), s.input(shared, s.normal(s.all*shared))
			s.run(func(v compute.Verbs) {
				v.CopyColumns(x, a, compute.Ranges{First: 1, Step: 24}, compute.Ranges{First: 5, Step: own}, own, heads)
				v.CopyColumns(x, b, compute.Ranges{First: 1 + own, Step: 24}, compute.Ranges{}, shared, heads)
			})
			s.keep("copied", x, exact)
		}})
	}
	return all
}

// hostScripts: an observer sees what the verbs before it wrote, once, and not what those after it write.
func hostScripts() []script {
	return []script{{name: "Host/between verbs", tokens: 5, play: func(s *stage) {
		const cols = 40
		x, y := s.inOut(cols, s.normal(s.all*cols)), s.input(cols, s.normal(s.all*cols))
		calls, seen := 0, output{label: "seen", bound: exact}
		s.run(func(v compute.Verbs) {
			v.Add(x, y)
			v.Host(func() error {
				calls++
				for i := range x.Rows {
					seen.rows = append(seen.rows, slices.Clone(s.read(x, i)))
				}
				return nil
			})
			v.Add(x, y)
		})
		s.kept = append(s.kept, seen)
		s.keep("in the end", x, exact)
		s.keepTotal("calls", []float32{float32(calls)}, exact)
	}}}
}

func ropeScripts() (all []script) {
	for _, style := range []compute.RopeStyle{compute.Interleaved, compute.Halves} {
		for _, h := range []struct{ headDim, dims, heads int }{{16, 16, 1}, {64, 64, 8}, {64, 32, 3}, {80, 80, 2}, {80, 20, 5}, {96, 96, 1}, {128, 128, 4}, {128, 64, 1}, {6, 2, 3}} {
			for _, n := range []int{7, 130} { // a single token is a step of each, too
				if (n == 130) != (h.headDim == 64 || h.headDim == 80) {
					continue // more tokens are more rows of the same, and every width has few
				}
				name := fmt.Sprintf("RoPE/%s/%d heads of %d, %d turned/%d tokens", []string{"interleaved", "halves"}[style], h.heads, h.headDim, h.dims, n)
				all = append(all, script{name: name, tokens: n, play: func(s *stage) { playRoPE(s, style, h.headDim, h.dims, h.heads) }})
			}
		}
	}
	for _, style := range []compute.RopeStyle{compute.Interleaved, compute.Halves} {
		for _, h := range []struct{ headDim, dims, heads int }{{64, 64, 3}, {80, 40, 2}, {16, 16, 1}} {
			name := fmt.Sprintf("RoPE/by axes, %s/%d heads of %d, %d turned", []string{"interleaved", "halves"}[style], h.heads, h.headDim, h.dims)
			all = append(all, script{name: name, tokens: 11, play: func(s *stage) { playRoPEByAxes(s, style, h.headDim, h.dims, h.heads) }})
		}
	}
	return all
}

// playRoPEByAxes rotates pairs by the positions of three axes, in turns, and in a later step without such positions by
// the row's own. Another rope in the same step has no axes.
func playRoPEByAxes(s *stage, style compute.RopeStyle, headDim, dims, heads int) {
	plain := compute.Rope{Style: style, Dims: dims, Scale: 1}
	for i := range dims / 2 {
		plain.Freqs = append(plain.Freqs, math.Pow(10000, -2*float64(i)/float64(dims)))
	}
	byAxes := plain
	byAxes.Scale, byAxes.Axes = 1.25, make([]uint8, dims/2)
	for i := range byAxes.Axes {
		byAxes.Axes[i] = uint8(i * 5 % 3)
	}
	at, axes := make([]int32, s.all), [][]int32{make([]int32, s.all), make([]int32, s.all), make([]int32, s.all)}
	for i := range int32(s.all) {
		at[i] = 4000 + i
		axes[0][i], axes[1][i], axes[2][i] = 3990, 3990+i/4, 3990+i%4
	}
	cols := heads * headDim
	var values [4][]float32
	var x [4]compute.Tensor
	for i := range x {
		values[i] = s.normal(s.all * cols)
		x[i] = s.inOut(cols, values[i])
	}
	s.params.Pos, s.params.Axes = at, axes
	s.run(func(v compute.Verbs) {
		v.RoPE(x[0], headDim, &byAxes)
		v.RoPE(x[1], headDim, &plain)
	})
	s.params.Axes = nil
	s.run(func(v compute.Verbs) {
		v.RoPE(x[2], headDim, &byAxes)
		v.RoPE(x[3], headDim, &plain)
	})
	for i := range x {
		s.keep(fmt.Sprintf("turn %d", i), x[i], turned(values[i], &plain, cols, headDim))
	}
}

// turned bounds the rotation of rows of x by r.
func turned(x []float32, r *compute.Rope, cols, headDim int) bound {
	return func(bounds []float64, _ []float32, row int) {
		for c := range bounds {
			head, at := x[row*cols+c/headDim*headDim:][:headDim][r.First:], c%headDim-r.First
			pair := at ^ 1
			if r.Style == compute.Halves {
				pair = (at + r.Dims/2) % r.Dims
			}
			bounds[c] = 0
			if at >= 0 && at < r.Dims {
				bounds[c] = turnTolerance * math.Hypot(float64(head[at]), float64(head[pair]))
			}
		}
	}
}

// playRoPE rotates by two ropes in one step; the second rotates the last elements of heads, to positions before their
// own. Later steps use the first rope again at other positions, and at last at those of Turns: a device may keep a
// step's sines, and only a step's.
func playRoPE(s *stage, style compute.RopeStyle, headDim, dims, heads int) {
	first, second := compute.Rope{Style: style, Dims: dims, Scale: 1}, compute.Rope{Style: style, First: headDim - dims, Dims: dims, Scale: 1.25, Back: 3}
	for i := range dims / 2 {
		first.Freqs = append(first.Freqs, math.Pow(10000, -2*float64(i)/float64(dims)))
		second.Freqs = append(second.Freqs, math.Pow(500000, -2*float64(i)/float64(dims))/8)
	}
	at, later, back := make([]int32, s.all), make([]int32, s.all), make([]int32, s.all)
	for i := range at {
		at[i] = []int32{0, 1, 5, 63, 64, 4095, 131071}[i%7] + int32(i/7)
		later[i], back[i] = at[i]+3, -at[i]/2
	}
	cols := heads * headDim
	var values [5][]float32
	var x [5]compute.Tensor
	for i := range x {
		values[i] = s.normal(s.all * cols)
		x[i] = s.inOut(cols, values[i])
	}
	s.params.Pos = at
	s.run(func(v compute.Verbs) {
		v.RoPE(x[0], headDim, &first)
		v.RoPE(x[1], headDim, &second)
		v.RoPE(x[2], headDim, &first)
	})
	s.params.Pos = later
	s.run(func(v compute.Verbs) { v.RoPE(x[3], headDim, &first) })
	s.params.Turns = back
	s.run(func(v compute.Verbs) { v.RoPE(x[4], headDim, &first) })
	for i := range x {
		by := &first
		if i == 1 {
			by = &second
		}
		s.keep(fmt.Sprintf("turn %d", i), x[i], turned(values[i], by, cols, headDim))
	}
}
