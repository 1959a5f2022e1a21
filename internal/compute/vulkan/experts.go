package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Shapes of the shaders for experts. Their constants must be equal.
const (
	mostExperts = 1024 // experts of a layer
	routeLocal  = 64   // route.comp: a workgroup for each token
	sortLocal   = 256  // sortpairs.comp: one workgroup
	// expertTokens is the number of tokens computed at a time, which bounds the memory for their experts' outputs.
	expertTokens = 512
)

// Choice allocates choices: for each row its experts and then their weights, all of them floats. [rows, 2·used]
func (d *Device) Choice(rows, used, n int) (compute.Choice, error) {
	if n > mostExperts {
		return compute.Choice{}, setting.Errorf("a layer of %d experts: GPUs compute at most %d; run the model on the processor, with %s", n, mostExperts, setting.Devices.To("none"))
	}
	t, err := d.Tensor(rows, 2*used)
	if err != nil {
		return compute.Choice{}, fmt.Errorf("choices of %d experts for %d tokens: %w", used, rows, err)
	}
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: t.Mem}, nil
}

// choices returns c as a tensor.
func choices(c compute.Choice) compute.Tensor {
	return compute.Tensor{Rows: c.Rows, Cols: 2 * c.Used, Outputs: c.Outputs, Mem: c.Mem}
}

// route chooses the experts of every token.
func (r *recorder) route(o *compute.Route) {
	c, how := o.Choice, o.How
	if !o.Fits() {
		panic("vulkan: Route of shapes that do not fit")
	}
	if c.Rows == 0 {
		return
	}
	chosen := floats(o.Logits) // stands in
	if o.Chosen.Mem != nil {
		chosen = floats(o.Chosen)
	}
	r.dispatch(call{
		shader: "route", local: routeLocal,
		bind: []binding{write(floats(choices(c))), read(floats(o.Logits)), read(elementsOr(o.Bias, floats(o.Logits))), read(elementsOr(o.Factors, floats(o.Logits))), read(chosen)},
		push: []uint32{
			uint32(c.N), uint32(c.Used), uint32(how.Score), truth(how.Ranked(o.Bias != nil)), truth(o.Bias != nil),
			uint32(how.Groups), uint32(how.GroupsUsed), uint32(how.GroupBest(c.N / max(1, how.Groups))), truth(how.Normalised), math.Float32bits(how.MinSum), math.Float32bits(how.Scale), truth(o.Factors != nil), truth(o.Chosen.Mem != nil),
		},
		groups: [3]int{c.Rows, 1, 1},
	})
}

// gateRows multiplies rows by what follows from their logits.
func (r *recorder) gateRows(o *compute.GateRows) {
	x, logits := o.X, o.Logits
	if logits.Rows != x.Rows || logits.Cols != 1 {
		panic("vulkan: GateRows of shapes that do not fit")
	}
	n := x.Rows * x.Cols
	if n == 0 {
		return
	}
	form, pack := r.packing(x)
	invocations := n
	if pack {
		invocations = n / packPart
	}
	r.dispatch(call{
		shader: "gaterows", local: elementwise, spec: []uint32{uint32(o.Act), truth(pack)},
		bind:   []binding{update(floats(x)), read(floats(logits)), write(form)},
		push:   []uint32{uint32(n), uint32(x.Cols), packedScales(n)},
		groups: r.groupsFor(invocations),
	})
	r.packed(x, form, pack)
}

// experts is one Experts, for tokens of a step.
type experts struct {
	r      *recorder
	w      compute.ExpertWeights
	c      compute.Choice
	first  int // first token
	tokens int
	prompt bool        // they are of prompts, not single tokens of running sequences
	held   int         // experts that the matrices hold
	ff     int         // neurons of an expert
	sorted driver.View // pairs by expert; none for few tokens
	table  driver.View // the experts' places; the choices if there is no table
	counts driver.View // predicted, gated, active neurons, where those that are zero are left out
}

// chosenExperts computes the chosen experts' layers. With few tokens, each pair of a token and an expert is a product
// of its own. With more, the pairs are sorted by expert, and an expert's rows are read once for a tile of them. Both
// sum in the order of single tokens, so a token's bytes depend on nothing but its own values. Pairs of prompts are
// always sorted if cooperative matrices multiply them.
//
// If next is not nil, which only expertsNext allows, the result is added to a residual and its norm is begun.
func (r *recorder) chosenExperts(o *compute.Experts, next *begun) {
	w, c := o.Weights, o.Choice
	if !w.Fits(o.Out, o.X, c) {
		panic("vulkan: Experts of shapes that do not fit: " + w.Down.Name)
	}
	if c.Rows == 0 {
		return
	}
	r.about(w.Down.Name)
	in := operand{r: r, x: o.X, name: "activations of experts"}
	table, counts := r.expertTable(&w, c), r.countExperts(&w, c)
	single := r.single(o.X)
	for first, n := 0, 0; first < c.Rows; first += n {
		prompt := first >= single
		if n = min(expertTokens, single-first); prompt {
			n = min(expertTokens, c.Rows-first)
		}
		f := &experts{r: r, w: w, c: c, table: table, counts: counts, held: w.Holds(c.N), ff: w.Neurons(c.N), first: first, tokens: n, prompt: prompt}
		f.sort()
		if f.few() {
			f.computeFew(&in, o.Out, next)
		} else {
			f.compute(&in, o.Out)
		}
	}
}

// by returns how products with m are computed.
func (f *experts) by(m *compute.Matrix) Arithmetic {
	if f.prompt && m != nil && f.r.d.expertArithmetic(m.Type) != Ordered {
		return Matrices
	}
	return Ordered
}

// sort sorts pairs by expert where products take them so.
func (f *experts) sort() {
	sorted := f.tokens > compute.FewTokens
	for _, m := range []*compute.Matrix{f.w.Gate, f.w.Up, f.w.Down, f.w.FC1, f.w.FC2} {
		sorted = sorted || f.by(m) != Ordered
	}
	if !sorted {
		return
	}
	f.sorted = f.r.scratch("pairs by expert", 4*int64(f.held+1+f.pairs()))
	f.r.dispatch(call{
		shader: "sortpairs", local: sortLocal,
		bind:   []binding{read(floats(choices(f.c))), write(f.sorted), read(f.table)},
		push:   []uint32{uint32(f.pairs()), uint32(f.c.Used), uint32(f.held), uint32(f.first), f.tabled(), uint32(f.c.N)},
		groups: [3]int{1, 1, 1},
	})
}

// expertTable returns the memory of w's table, which is written anew before every run.
func (r *recorder) expertTable(w *compute.ExpertWeights, c compute.Choice) driver.View {
	t := w.Table
	if t == nil {
		return floats(choices(c))
	}
	if len(t.At) != c.N {
		panic("vulkan: Experts with a table of other experts: " + w.Down.Name)
	}
	return r.hostData(4*int64(c.N), func(_ *compute.Params, dst []byte) { put(words(dst), t.At) })
}

func (f *experts) tabled() uint32 { return truth(f.w.Table != nil) }

func (f *experts) pairs() int { return f.tokens * f.c.Used }

func (f *experts) scratch(name string, cols int) compute.Tensor {
	return compute.Tensor{Rows: f.pairs(), Cols: cols, Mem: &tensor{f.r.scratch(name, 4*int64(f.pairs())*int64(cols))}}
}

// compute computes the tokens' rows of out.
func (f *experts) compute(in *operand, out compute.Tensor) {
	logits := f.predict(in)
	firstGate, firstUp := f.w.First(0, f.ff)
	gate, gateBias := f.w.Gates()
	a, up := f.scratch("experts' neurons", f.ff), compute.Tensor{}
	if gate != nil {
		up = f.scratch("experts' ups", f.ff)
		f.multiply(in, gate, gateBias, firstGate, a, false)
		f.multiply(in, f.w.Up, f.w.UpBias, firstUp, up, false)
	} else {
		f.multiply(in, f.w.Up, f.w.UpBias, firstUp, a, false)
	}
	f.activate(a, up, logits)
	y := f.scratch("experts' outputs", out.Cols)
	hidden := operand{r: f.r, x: a, name: "experts' neurons"}
	f.multiply(&hidden, f.w.Down, f.w.DownBias, 0, y, true)
	n := f.tokens * out.Cols
	f.r.dispatch(call{
		shader: "sumexperts", local: elementwise,
		bind:   []binding{update(floats(out)), read(floats(y)), read(floats(choices(f.c))), read(f.table)},
		push:   []uint32{uint32(n), uint32(out.Cols), uint32(f.c.Used), truth(!f.w.Before), f.tabled(), uint32(f.held), uint32(f.first)},
		groups: f.r.groupsFor(n),
	})
}

// predict returns the logits of the pairs' neurons; none where there are no predictors.
func (f *experts) predict(in *operand) (logits compute.Tensor) {
	if f.w.FC1 == nil {
		return logits
	}
	h := f.scratch("experts' predictors", f.w.FC2.Cols)
	f.multiply(in, f.w.FC1, nil, 0, h, false)
	f.r.activate(h, h, compute.Tensor{}, compute.Activation{Kind: compute.ReLU})
	logits = f.scratch("logits of experts' neurons", f.ff)
	hidden := operand{r: f.r, x: h, name: "experts' predictors"}
	f.multiply(&hidden, f.w.FC2, nil, 0, logits, true)
	return logits
}

// activate replaces a, the gates of the pairs (the ups, in ungated layers), by their neurons. If there are logits, only
// the neurons that they choose count.
func (f *experts) activate(a, up, logits compute.Tensor) {
	if !f.w.Exact {
		f.r.activate(a, a, up, f.w.Act)
		return
	}
	gated := up.Mem != nil
	if !gated {
		up = a
	}
	predicted := logits.Mem != nil
	if !predicted {
		logits = a
	}
	f.r.dispatch(call{
		shader: "maskexperts", local: elementwise, spec: []uint32{truth(gated), truth(predicted)},
		bind: []binding{
			update(floats(a)), read(floats(up)), read(floats(choices(f.c))), update(f.counts), read(f.r.paramsOf(f.c.Outputs)), read(f.table), read(floats(logits)),
		},
		push: append([]uint32{
			uint32(f.pairs()), uint32(f.ff), uint32(f.c.Used), uint32(f.first), f.tabled(), uint32(f.held),
		}, nonlinearity(f.w.Act)...),
		groups: [3]int{min(ceil(f.pairs()*f.ff, elementwise), listedGroups), 1, 1},
	})
}

// multiply computes out [pairs, out.Cols]: for every pair, out.Cols rows of its expert in m, from row from on, times
// the operand. The operand has a row for each pair if ofPairs is set, otherwise one for each token.
func (f *experts) multiply(o *operand, m *compute.Matrix, bias *compute.Vector, from int, out compute.Tensor, ofPairs bool) {
	by := f.by(m)
	var x driver.View
	var scales uint32
	if by == Ordered {
		x, scales = o.of(m.Type)
	} else {
		x, scales = o.halves(by)
	}
	w, rows := mem(m), out.Cols
	for i := range w.parts {
		p := &w.parts[i]
		c := call{
			bind: []binding{read(p.memory), read(x), update(floats(out)), read(elementsOr(bias, p.memory)), update(floats(out)), read(floats(choices(f.c))), read(f.table)},
			push: append(w.push(p), uint32(rows), uint32(p.first), uint32(rows), uint32(f.pairs()), uint32(f.first), 0, scales, truth(bias != nil)),
		}
		if by != Ordered {
			c.push = append(c.push, uint32(m.Cols))
		}
		c.push = append(c.push, uint32(f.c.Used), uint32(f.held), f.tabled(), uint32(m.Rows/f.held), uint32(from), uint32(p.rows), truth(ofPairs), truth(f.w.Before && !ofPairs && m != f.w.FC1))
		switch {
		case by != Ordered:
			v := f.r.d.variant(by, m.Type, rows*f.held, ceil(f.pairs(), f.held))
			own := []uint32{uint32(m.Type), 0, 0, uint32(v.rows), uint32(v.tokens), 0}
			c.shader, c.local, c.spec = v.shader(f.r.d.gpu.Matrices)
			c.shader, c.spec = driver.ExpertMatricesShader, append(own, c.spec...)
			c.bind = append(c.bind, read(f.sorted))
			c.groups = [3]int{ceil(f.tokens, v.tokens), ceil(rows, v.rows), f.held}
		case f.tokens <= compute.FewTokens:
			c.shader = f.r.dotting("matvec_experts")
			vectorsFor(m.Type, rows, 1).with(&c, m.Type, 0, rows, 1)
			c.groups[2] = f.pairs()
		case f.tokens <= fewRows:
			c.bind = append(c.bind, read(f.sorted))
			c.shader = f.r.dotting("matvec_sorted")
			vectorsFor(m.Type, rows, vecTokens).with(&c, m.Type, 0, rows, vecTokens)
			c.groups[2] = f.held
		default:
			c.bind = append(c.bind, read(f.sorted))
			c.shader, c.local, c.spec = f.r.dotting("matmat_experts"), matLocal, []uint32{uint32(m.Type), 0, 0}
			c.groups = [3]int{ceil(rows, matTile), ceil(f.tokens, matTile), f.held}
		}
		f.r.dispatch(c)
	}
}

// countExperts adds to the layer's counts, after every run of the segment, what the choices say. If neurons are left
// out, it returns the memory in which shaders count the active ones.
func (r *recorder) countExperts(w *compute.ExpertWeights, c compute.Choice) (counts driver.View) {
	if w.Exact && w.Count == nil {
		counts = r.scratch("counts", counterBytes)
	}
	if w.Count == nil && w.Bins == nil {
		return counts
	}
	if w.Exact && w.Count != nil {
		count, predicted := w.Count, w.FC1 != nil
		counts = r.counter(func(_ *compute.Params, counted []uint32) {
			if predicted {
				count.Predicted += int64(counted[0])
			}
			count.Gated += int64(counted[1])
			count.Active += int64(counted[2])
		})
	}
	layout, weights := r.seg.params, *w
	v := r.result(4*int64(c.Rows)*int64(2*c.Used), func(p *compute.Params, data []byte) {
		lead, step := layout.rowsOf(p, c.Outputs)
		countChosen(&weights, c, numbers(data)[lead*2*c.Used:], min(step, c.Rows-lead))
	})
	r.copy(v, floats(choices(c)))
	return counts
}

// countChosen counts what a step's tokens chose.
func countChosen(w *compute.ExpertWeights, c compute.Choice, choice []float32, tokens int) {
	seen, list := make([]bool, c.N), make([]int32, 0, tokens*c.Used)
	present, pairs := int64(0), int64(0)
	for t := range tokens {
		for _, e := range choice[t*2*c.Used:][:c.Used] {
			list = append(list, int32(e))
			if w.At(int(e)) == compute.Absent {
				continue
			}
			pairs++
			if !seen[int(e)] {
				seen[int(e)] = true
				present++
			}
		}
	}
	if b := w.Bins; b != nil && b.On {
		b.Outputs = c.Outputs
		b.Add(0, list)
	}
	if w.Count == nil {
		return
	}
	bytes := int64(0)
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down, w.FC1, w.FC2} {
		if m != nil {
			bytes += mem(m).bytes()
		}
	}
	neurons := pairs * int64(w.Neurons(c.N))
	w.Count.Steps++
	w.Count.Tokens += int64(tokens)
	if w.FC1 == nil {
		w.Count.Predicted += neurons
	}
	if !w.Exact {
		w.Count.Gated += neurons
		w.Count.Active += neurons
	}
	w.Count.Bytes += present * bytes / int64(w.Holds(c.N))
}
