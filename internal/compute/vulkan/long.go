package vulkan

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Arithmetic is a way of computing products of prompts.
type Arithmetic int

// The arithmetics. But for Ordered they turn weights and activations into halves and add up floats in an order of their
// own: a row of a prompt has the same bytes from run to run, and whatever the other rows are, but not those of a single
// token of a running sequence.
const (
	Best     Arithmetic = iota // Matrices, else for F16 Mixed, of those that pass their check; else Ordered
	Matrices                   // cooperative.comp: cooperative matrices
	Mixed                      // matmat_half.comp: products of halves as floats
	Packed                     // the same, two products at once whose sums are halves: too rough for the definition, to be timed only
	Ordered                    // matmat.comp, downmat.comp: integers and floats, the bytes of single tokens
)

func (a Arithmetic) String() string {
	return [...]string{"the best", "cooperative matrices", "halves as floats", "packed halves", "in order"}[a]
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
	failed  [Ordered]error // why it is not used
}

// arithmetic returns how a product of a prompt's rows with weights of type t is computed, however few they are: a
// prompt has the same bytes wherever it is cut. Halves hold no weights of 32 bits, and too few of the range of BF16.
func (d *Device) arithmetic(t quant.Type) Arithmetic {
	if t == quant.F32 || t == quant.BF16 {
		return Ordered
	}
	asked := []Arithmetic{d.long.asked}
	if d.long.asked == Best {
		if asked = []Arithmetic{Matrices}; !t.Quantised() { // whose integers are faster than halves
			asked = append(asked, Mixed)
		}
	}
	for _, a := range asked {
		if a != Ordered && d.can(a) == nil {
			return a
		}
	}
	return Ordered
}

// LongProducts returns how products of prompts with weights of type t are computed, and why not by an arithmetic that
// comes before it.
func (d *Device) LongProducts(t quant.Type) (Arithmetic, error) {
	a := d.arithmetic(t)
	var failed error
	for b := Matrices; b < a; b++ {
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
	if err := d.long.failed[Matrices]; err != nil && d.gpu.Matrices.M > 0 {
		return err.Error()
	}
	if err := d.long.failed[Mixed]; err != nil {
		return err.Error()
	}
	return ""
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

// multiplyHalves is multiply in tiles of v. A matrix that lies by neuron, [x.Cols, p.Out.Cols] in memory, is multiplied
// so.
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
		r.dispatchProduct(call{
			shader: shader, local: local,
			spec:   append([]uint32{uint32(p.W.Type), truth(m.layout == groups), truth(byNeuron), uint32(v.rows), uint32(v.tokens), 0}, own...),
			bind:   []binding{read(part.memory), read(x), write(floats(p.Out)), read(bias), write(floats(p.Out))},
			push:   append(m.push(part), uint32(rows), uint32(part.first), uint32(p.Out.Cols), uint32(n), uint32(first), uint32(to), scales, truth(p.Bias != nil), uint32(columns)),
			groups: [3]int{ceil(n, v.tokens), ceil(rows, v.rows), 1},
		}, specAdded, p.Out, len(m.parts) == 1 && n == p.Out.Rows)
	}
}

// The product that an arithmetic must compute to be used: no dimension is a multiple of a tile's or a step's, and all
// sums are whole numbers that halves hold exactly, whatever their order.
const checkRows, checkColumns, checkTokens = 70, 48, 75

func checkWeight(row, column int) float32    { return float32((7*row+3*column)%17 - 8) }
func checkElement(token, column int) float32 { return float32((5*token+11*column)%13 - 6) }

// check computes a product by a, by row and by neuron, in every size of tile that is used.
func (d *Device) check(a Arithmetic) error {
	switch {
	case a == Matrices && d.gpu.Matrices.M == 0:
		return errors.New("the device has none that serve")
	case len(d.variants(a)) == 0:
		return fmt.Errorf("a workgroup has %d bytes of shared memory and %d invocations, which is too little", d.gpu.Limits.MaxComputeSharedMemorySize, d.gpu.Limits.MaxComputeWorkGroupInvocations)
	}
	// The product's memory is given back at once.
	t := &Device{gpu: d.gpu, pipelines: d.pipelines, bindings: d.bindings, maxBinding: d.maxBinding, segments: map[compute.Segment]*segment{}, scratches: map[string]driver.View{}}
	t.mem = driver.Memory{GPU: d.gpu, Budget: checkBudget, Apart: d.mem.Apart}
	t.reset()
	defer t.reset()
	x, err := t.Tensor(checkTokens, checkColumns)
	if err == nil {
		err = t.upload(floats(x), 4*checkColumns, func(dst []byte, first int) {
			for i, out := 0, numbers(dst); i < len(out); i++ {
				out[i] = checkElement(first+i/checkColumns, i%checkColumns)
			}
		})
	}
	if err != nil {
		return err
	}
	for _, byNeuron := range []bool{false, true} {
		w, err := t.checkMatrix(byNeuron)
		if err != nil {
			return err
		}
		for _, v := range d.variants(a) {
			if err := t.checkProduct(v, x, w, byNeuron); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBudget bounds the memory of the check, in bytes.
const checkBudget = 4 << 20

func (d *Device) checkMatrix(byNeuron bool) (*compute.Matrix, error) {
	src := compute.Source{Name: "check", Type: quant.F16, Rows: checkRows, Cols: checkColumns}
	if byNeuron {
		src.Rows, src.Cols = src.Cols, src.Rows
	}
	row := make([]float32, src.Cols)
	for r := range src.Rows {
		for c := range row {
			if row[c] = checkWeight(r, c); byNeuron {
				row[c] = checkWeight(c, r)
			}
		}
		src.Data = append(src.Data, make([]byte, src.Type.RowBytes(src.Cols))...)
		quant.Encode(src.Type, src.Data[r*src.Type.RowBytes(src.Cols):], row)
	}
	return d.Matrix(src, compute.Rows)
}

func (d *Device) checkProduct(v variant, x compute.Tensor, w *compute.Matrix, byNeuron bool) error {
	out, err := d.Tensor(checkTokens, checkRows)
	if err != nil {
		return err
	}
	seen, err := d.mem.Alloc(driver.ToHost, 4*checkTokens*checkRows)
	if err != nil {
		return err
	}
	err = d.once(func(r *recorder) {
		r.multiplyHalves(v, &operand{r: r, x: x, name: "check"}, 0, checkTokens, 0, compute.Product{Out: out, W: w}, byNeuron)
		r.copy(seen, floats(out))
	})
	if err != nil {
		return err
	}
	for i, have := range numbers(seen.Host()) {
		want := float32(0)
		for c := range checkColumns {
			want += checkWeight(i%checkRows, c) * checkElement(i/checkRows, c)
		}
		if have != want {
			return fmt.Errorf("element %d of a known product is %g instead of %g", i, have, want)
		}
	}
	return nil
}
