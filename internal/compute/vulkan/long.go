package vulkan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Arithmetic is a way of computing products of prompts.
type Arithmetic int

// The arithmetics. All except Ordered convert weights and activations to halves and add up floats in an order of their
// own. A row of a prompt has the same bytes in every run and whatever the other rows are. Its bytes differ from those
// of a single token of a running sequence.
const (
	Best     Arithmetic = iota // Groups, else Matrices, else for F16 Mixed, whichever passes its check; else Ordered
	Groups                     // workgroup.comp: cooperative matrices of whole workgroups
	Matrices                   // cooperative.comp: cooperative matrices
	Integers                   // matmat_integers.comp: eight bits, as single tokens, in another order
	Mixed                      // matmat_half.comp: products of halves as floats
	Packed                     // the same with sums in halves, two products at once: too rough for the definition, only to be timed
	Ordered                    // matmat.comp, downmat.comp: integers and floats, the bytes of single tokens
)

func (a Arithmetic) String() string {
	return [...]string{"the best", "cooperative matrices of workgroups", "cooperative matrices", "integers", "halves as floats", "packed halves", "in order"}[a]
}

// exponent: activations are less than 2^exponent in halves. Where sums are floats, halves use their range. Packed
// halves sum 16 products, which stay halves while weights are less than 2^8.
func exponent(a Arithmetic) uint32 {
	if a == Packed {
		return 4
	}
	return 14
}

// long holds a device's findings about its arithmetics.
type long struct {
	asked   Arithmetic
	checked [Ordered]bool
	failed  [Ordered]error    // why it is not used
	left    map[variant]error // variants that are not used
	chosen  map[quant.Type]Arithmetic
	tuned   *tuned // nil: not read yet
	timed   bool   // software is timed, too: tests ask for it
	decoded int    // bytes of weights that are decoded at a time; 0: decodedBytes. The check has some tiles at a time

	attention map[attentionKind][]attentionTile // chosen
	attended  map[attentionTried]error          // attention by tiles that were tried: why they are not used; nil: they are
}

// arithmetic returns how a product of a prompt's rows with weights of type t is computed, however few they are: a
// prompt has the same bytes wherever it is cut. Halves hold no weights of 32 bits, and too few of the range of BF16.
func (d *Device) arithmetic(t quant.Type) Arithmetic {
	if t == quant.F32 || t == quant.BF16 {
		return Ordered
	}
	asked := []Arithmetic{d.long.asked}
	if d.long.asked == Best {
		if asked = []Arithmetic{Groups, Matrices}; !t.Quantised() { // their integers are faster than halves
			asked = append(asked, Mixed)
		}
	}
	if a, ok := d.long.chosen[t]; ok {
		return a
	}
	var serve []Arithmetic
	for _, a := range asked {
		if a != Ordered && (a != Integers || t.Quantised()) && d.can(a) == nil {
			serve = append(serve, a)
		}
	}
	if d.long.asked == Best && t.Quantised() || len(serve) == 0 {
		serve = append(serve, Ordered)
		if d.long.asked == Best && t.Quantised() && d.chooses() && d.can(Groups) != nil && d.can(Integers) == nil {
			serve = append(serve, Integers)
		}
	}
	if d.long.chosen == nil {
		d.long.chosen = map[quant.Type]Arithmetic{}
	}
	d.long.chosen[t] = d.faster(t, serve)
	return d.long.chosen[t]
}

// expertArithmetic is arithmetic of the products of experts, which have cooperative matrices or go in order.
func (d *Device) expertArithmetic(t quant.Type) Arithmetic {
	if a := d.arithmetic(t); a == Ordered || a > Matrices || d.can(Matrices) != nil {
		return Ordered
	}
	return Matrices
}

// LongProducts returns how products of prompts with weights of type t are computed, and why not by an arithmetic that
// comes before it.
func (d *Device) LongProducts(t quant.Type) (Arithmetic, error) {
	a := d.arithmetic(t)
	var failed error
	for b := Groups; b < a; b++ {
		failed = errors.Join(failed, d.long.failed[b])
	}
	return a, failed
}

// can says why the device does not compute by a; nil: it does. The first time it is tried.
func (d *Device) can(a Arithmetic) error {
	if !d.long.checked[a] {
		d.long.checked[a] = true
		if err := d.check(a); err != nil {
			d.long.failed[a] = fmt.Errorf("%s are not used: %w", a, err)
		}
	}
	return d.long.failed[a]
}

// Note returns what a user may want to know of the device: that it has arithmetics which did not pass their check.
// Empty: there is nothing.
func (d *Device) Note() string {
	var failed error
	for a := range Ordered {
		if d.long.failed[a] == nil { // else that says it
			failed = errors.Join(failed, d.leftOf(a))
		}
	}
	for a, err := range d.long.failed {
		lacks := Arithmetic(a) == Groups && len(d.gpu.Workgroup.Shapes) == 0 || Arithmetic(a) == Matrices && d.gpu.Matrices.M == 0
		if err != nil && !lacks {
			failed = errors.Join(failed, err)
		}
	}
	failed = errors.Join(failed, sorted(maps.Values(d.long.attended)))
	if failed == nil {
		return ""
	}
	return failed.Error()
}

// halves returns the operand in halves, as a takes them, and where its scales begin in words.
func (o *operand) halves(a Arithmetic) (driver.View, uint32) {
	cols := ceil(o.x.Cols, shaders.PaddedColumns) * shaders.PaddedColumns
	words := o.x.Rows * cols / 2
	if o.made[halves].Slab == nil {
		v := o.r.scratch(fmt.Sprintf("%s %d", o.name, halves), 4*int64(words+o.x.Rows))
		o.r.dispatch(call{
			shader: "halve", local: 256, spec: []uint32{exponent(a), truth(o.relu)},
			bind:   []binding{read(floats(o.x)), write(v)},
			push:   []uint32{uint32(o.x.Cols), uint32(cols / 2), uint32(words)},
			groups: [3]int{o.x.Rows, 1, 1},
		})
		o.made[halves] = v
	}
	return o.made[halves], uint32(words)
}

// multiplyBy is multiply in tiles of v, which Ordered has of one kind.
func (r *recorder) multiplyBy(v variant, o *operand, first, n, to int, p compute.Product) {
	switch v.by {
	case Ordered:
		r.multiply(Ordered, o, first, n, to, p)
	case Integers:
		r.multiplyIntegers(v, o, first, n, to, p)
	default:
		r.multiplyHalves(v, o, first, n, to, p, false)
	}
}

// multiplyIntegers is multiply by quantised weights in tiles of v.
func (r *recorder) multiplyIntegers(v variant, o *operand, first, n, to int, p compute.Product) {
	x, scales := o.of(p.W.Type)
	m := mem(p.W)
	for i := range m.parts {
		part := &m.parts[i]
		bias := elementsOr(p.Bias, part.memory)
		r.dispatchProduct(call{
			shader: r.dotting("matmat_integers"), local: matLocal, spec: []uint32{uint32(p.W.Type), uint32(v.rows), uint32(v.tokens), 0},
			bind:   []binding{read(part.memory), read(x), write(floats(p.Out)), read(bias), write(floats(p.Out))},
			push:   append(m.push(part), uint32(part.rows), uint32(part.first), uint32(p.Out.Cols), uint32(n), uint32(first), uint32(to), scales, truth(p.Bias != nil)),
			groups: [3]int{ceil(n, v.tokens), ceil(part.rows, v.rows), 1},
		}, 3, p.Out, m.whole() && n == p.Out.Rows)
	}
}

// multiplyHalves is multiply in tiles of v. A matrix stored by neuron, [x.Cols, p.Out.Cols] in memory, is also
// multiplied so if byNeuron is set.
func (r *recorder) multiplyHalves(v variant, o *operand, first, n, to int, p compute.Product, byNeuron bool) {
	x, scales := o.halves(v.by)
	m := mem(p.W)
	for i := range m.parts {
		part := &m.parts[i]
		rows, columns := part.rows, p.W.Cols
		if byNeuron {
			rows, columns = p.Out.Cols, o.x.Cols
		}
		bias := elementsOr(p.Bias, part.memory)
		shader, local, own := v.shader(r.d.gpu.Matrices)
		most := rows // at a time
		if v.by == Groups && p.W.Type.Quantised() {
			most = r.d.decodedRows(v, rows, columns)
		}
		for from := 0; from < rows; from += most {
			some := min(most, rows-from)
			c := call{
				shader: shader, local: local,
				spec:   append([]uint32{uint32(p.W.Type), truth(m.layout == groups), truth(byNeuron), uint32(v.rows), uint32(v.tokens), 0}, own...),
				bind:   []binding{read(part.memory), read(x), write(floats(p.Out)), read(bias), write(floats(p.Out))},
				push:   append(m.push(part), uint32(some), uint32(part.first+from), uint32(p.Out.Cols), uint32(n), uint32(first), uint32(to), scales, truth(p.Bias != nil), uint32(columns)),
				groups: [3]int{ceil(n, v.tokens), ceil(some, v.rows), 1},
			}
			if v.by == Groups {
				apart, pitch := r.decoded(m, part, p.W.Type, from, some, byNeuron)
				c.bind, c.push = slices.Insert(c.bind, 4, read(apart)), append(c.push, uint32(pitch), uint32(from))
			}
			r.dispatchProduct(c, specAdded, p.Out, some == rows && m.whole() && n == p.Out.Rows)
		}
	}
}

// known is a product that an arithmetic must compute to be used. All sums are whole numbers that halves hold exactly,
// whatever their order.
type known struct {
	of                    quant.Type
	rows, columns, tokens int
	product               func() []float32 // [tokens, rows], computed once: it takes longer than all checks with it
}

func newKnown(of quant.Type, rows, columns, tokens int) known {
	k := known{of: of, rows: rows, columns: columns, tokens: tokens}
	k.product = sync.OnceValue(func() []float32 {
		weights, elements := make([]float32, 0, rows*columns), make([]float32, columns)
		for row := range rows {
			for c := range columns {
				weights = append(weights, k.weight(row, c))
			}
		}
		out := make([]float32, 0, tokens*rows)
		for token := range tokens {
			for c := range elements {
				elements[c] = k.element(token, c)
			}
			for row := range rows {
				sum := float32(0)
				for c, w := range weights[row*columns:][:columns] {
					sum += w * elements[c]
				}
				out = append(out, sum)
			}
		}
		return out
	})
	return k
}

// knowns are the products that every arithmetic must compute correctly before it is used. In the first, no dimension is
// a multiple of a tile's or of a step's. The next are for Groups, which loads tiles inside a matrix and quantised
// weights in other ways. Integers has the last one only.
var knowns = []known{newKnown(quant.F16, 70, 48, 75), newKnown(quant.F16, 264, 320, 264), newKnown(quant.Q8_0, 264, 320, 264)}

func (k known) weight(row, column int) float32 { return float32((7*row+3*column)%17 - 8) }
func (k known) element(token, column int) float32 {
	if k.of.Quantised() && column%quant.QK == 0 {
		return 127 // which makes a block's scale one in eight bits
	}
	return float32((5*token+11*column)%13 - 6)
}

// check computes known products by a, by row and by neuron, in every variant.
func (d *Device) check(a Arithmetic) error {
	switch {
	case a == Groups && len(d.gpu.Workgroup.Shapes) == 0, a == Matrices && d.gpu.Matrices.M == 0:
		return errors.New("the device has none that serve")
	case len(d.variants(a)) == 0:
		return fmt.Errorf("a workgroup has %d bytes of shared memory and %d invocations, which is too little", d.gpu.Limits.MaxComputeSharedMemorySize, d.gpu.Limits.MaxComputeWorkGroupInvocations)
	}
	t := d.apart(checkBudget)
	t.long.decoded = 1
	defer t.reset()
	for i, k := range knowns {
		if a != Groups && (a == Integers) != k.of.Quantised() || a != Groups && a != Integers && i > 0 {
			continue
		}
		t.reset()
		x, err := t.checkActivations(k)
		if err != nil {
			return err
		}
		for _, byNeuron := range []bool{false, true} {
			if byNeuron && a == Integers {
				break
			}
			w, err := t.checkMatrix(k, byNeuron)
			if err != nil {
				return err
			}
			for _, v := range d.variants(a) {
				if err := t.checkProduct(k, v, x, w, byNeuron); err != nil {
					d.leave(v, err)
				}
			}
			if len(d.variants(a)) == 0 {
				return d.leftOf(a)
			}
		}
	}
	return nil
}

// leave notes that a variant is not used, because it failed or computed something else.
func (d *Device) leave(v variant, err error) {
	if d.long.left == nil {
		d.long.left = map[variant]error{}
	}
	d.long.left[v] = fmt.Errorf("%s in tiles of %s are not used: %w", v.by, v, err)
}

// leftOf returns why variants of a are not used; nil: all are.
func (d *Device) leftOf(a Arithmetic) error {
	return sorted(func(yield func(error) bool) {
		for v, err := range d.long.left {
			if v.by == a && !yield(err) {
				return
			}
		}
	})
}

// sorted joins errors, those that are not nil.
func sorted(all iter.Seq[error]) error {
	list := slices.DeleteFunc(slices.Collect(all), func(err error) bool { return err == nil })
	slices.SortFunc(list, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(list...)
}

// apart returns a device that has d's GPU and pipelines, and memory of its own, which is given back by reset.
func (d *Device) apart(budget int64) *Device {
	t := &Device{
		gpu: d.gpu, pipelines: d.pipelines, bindings: d.bindings, maxBinding: d.maxBinding, segments: map[compute.Segment]*segment{}, scratches: map[string]driver.View{},
		sizes: map[string]int64{},
	}
	t.mem = driver.Memory{GPU: d.gpu, Budget: budget, Apart: d.mem.Apart}
	t.reset()
	return t
}

// checkBudget bounds the memory of the check, in bytes.
const checkBudget = 8 << 20

func (d *Device) checkActivations(k known) (compute.Tensor, error) {
	x, err := d.Tensor(k.tokens, k.columns)
	if err == nil {
		err = d.upload(floats(x), 4*int64(k.columns), func(dst []byte, first int) {
			for i, out := 0, numbers(dst); i < len(out); i++ {
				out[i] = k.element(first+i/k.columns, i%k.columns)
			}
		})
	}
	return x, err
}

func (d *Device) checkMatrix(k known, byNeuron bool) (*compute.Matrix, error) {
	src := compute.Source{Name: "check", Type: k.of, Rows: k.rows, Cols: k.columns}
	if byNeuron {
		src.Rows, src.Cols = ceil(src.Cols, k.of.BlockElems())*k.of.BlockElems(), ceil(src.Rows, k.of.BlockElems())*k.of.BlockElems()
	}
	row := make([]float32, src.Cols)
	for r := range src.Rows {
		for c := range row {
			if row[c] = k.weight(r, c); byNeuron {
				row[c] = k.weight(c, r)
			}
		}
		size := src.Type.RowBytes(src.Cols)
		src.Data = append(src.Data, make([]byte, size)...)
		if encoded := src.Data[r*size:]; k.of != quant.Q8_0 {
			quant.Encode(k.of, encoded, row)
		} else { // whole numbers, in units of one
			for c, v := range row {
				block := encoded[c/quant.QK*k.of.BlockBytes():]
				binary.LittleEndian.PutUint16(block, quant.F16FromF32(1))
				block[2+c%quant.QK] = byte(int8(v))
			}
		}
	}
	return d.Matrix(src, compute.Rows)
}

func (d *Device) checkProduct(k known, v variant, x compute.Tensor, w *compute.Matrix, byNeuron bool) error {
	out, err := d.Tensor(k.tokens, k.rows)
	if err != nil {
		return err
	}
	seen, err := d.mem.Alloc(driver.ToHost, 4*int64(k.tokens*k.rows))
	if err != nil {
		return err
	}
	err = d.once(func(r *recorder) {
		p, o := compute.Product{Out: out, W: w}, &operand{r: r, x: x, name: "check"}
		if byNeuron {
			r.multiplyHalves(v, o, 0, k.tokens, 0, p, true)
		} else {
			r.multiplyBy(v, o, 0, k.tokens, 0, p)
		}
		r.copy(seen, floats(out))
	})
	if err != nil || d.gpu.Counts() {
		return err
	}
	want := k.product()
	for i, have := range numbers(seen.Host()) {
		if have != want[i] {
			return fmt.Errorf("element %d of a known product is %g instead of %g, in tiles of %s", i, have, want[i], v)
		}
	}
	return nil
}
