package kernel

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// fmaTolerance is the share of Σ|w||x| by which two orders of rounding may differ: a few float32 ulps per step.
const fmaTolerance = 2e-6

// actTolerance is the share of Σ|w|·max|x| that rounding activations to int8 may cost: half a step of 1/127.
const actTolerance = 0.5 / 127

// bf16Tolerance is the share of Σ|w|·max|x| that rounding both factors to eight bits may cost.
const bf16Tolerance = 2.0 / 256

// canary surrounds every written buffer.
const canary = 8

type problem struct {
	rows, cols, tokens int
	packed             []byte
	dense              []float32 // [rows, cols]
	x                  []float32 // [tokens, cols]
}

func newProblem(rng *rand.Rand, t quant.Type, rows, cols, tokens int) problem {
	p := problem{rows: rows, cols: cols, tokens: tokens, dense: make([]float32, rows*cols), x: make([]float32, tokens*cols)}
	for i := range p.dense {
		p.dense[i] = float32(rng.NormFloat64())
	}
	for i := range p.x {
		p.x[i] = float32(rng.NormFloat64())
	}
	raw := make([]byte, t.RowBytes(cols))
	p.packed = make([]byte, rows*RowBytes(t, cols))
	for r := range rows {
		row := p.dense[r*cols:][:cols]
		quant.Imitate(t, raw, row)
		quant.Decode(t, row, raw)
		PackRow(t, p.packed[r*RowBytes(t, cols):][:RowBytes(t, cols)], raw, cols)
	}
	return p
}

// multiply runs k over p, all tokens at once, with canaries around the output.
func (p problem) multiply(t *testing.T, k *Kernels, typ quant.Type) []float32 {
	t.Helper()
	out := make([]float32, canary+p.tokens*p.rows+canary)
	for i := range out {
		out[i] = -12345
	}
	x, stride := p.activations(k, typ)
	k.MatMulBefore(Next{p.packed, p.packed}, typ, out[canary:], p.rows, p.packed, p.rows, p.cols, x, stride, p.tokens)
	for i := range canary {
		if out[i] != -12345 || out[len(out)-1-i] != -12345 {
			t.Fatalf("%s %s %dx%dx%d wrote outside its output", k.Name, typ, p.rows, p.cols, p.tokens)
		}
	}
	return out[canary : len(out)-canary]
}

func (p problem) activations(k *Kernels, typ quant.Type) (unsafe.Pointer, int) {
	return p.activationsAs(k, k.Form(typ))
}

func (p problem) activationsAs(k *Kernels, form Form) (unsafe.Pointer, int) {
	if form == Floats {
		return unsafe.Pointer(unsafe.SliceData(p.x)), p.cols * 4
	}
	stride := form.ActRow(p.cols)
	acts := make([]byte, p.tokens*stride)
	for i := range p.tokens {
		k.Convert(form, acts[i*stride:][:stride], p.x[i*p.cols:][:p.cols])
	}
	return unsafe.Pointer(unsafe.SliceData(acts)), stride
}

func TestUnpackIsDecode(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	for _, typ := range quant.Types() {
		p := newProblem(rng, typ, 1, 512, 1)
		got := make([]float32, 512)
		UnpackRow(typ, got, p.packed)
		for i := range got {
			if got[i] != p.dense[i] {
				t.Fatalf("%s element %d is %g after packing, %g before", typ, i, got[i], p.dense[i])
			}
		}
	}
}

// TestMatMul holds every variant to the float64 product of the decoded weights, and to generic within rounding.
func TestMatMul(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	tolerance := fmaTolerance
	if runtime.GOARCH == "arm64" {
		tolerance = 0 // the kernels have the bits of their twins
	}
	for _, typ := range quant.Types() {
		for i, s := range [][3]int{{1, 256, 1}, {4, 256, 4}, {5, 512, 5}, {9, 768, 9}, {3, 2048, 2}, {13, 320, 7}, {8, 192, 3}, {2, 33, 2}, {7, 4544, 6}, {5, 6144, 1}, {6, 15616, 1}} {
			if typ.Like() != typ && i%3 > 0 || testing.Short() && s[1] > 2048 {
				continue
			}
			cols := (s[1] + typ.BlockElems() - 1) / typ.BlockElems() * typ.BlockElems()
			p := newProblem(rng, typ, s[0], cols, s[2])
			for _, k := range Variants() {
				got, want := p.multiply(t, k, typ), p.multiply(t, twin(k), typ)
				for i := range p.tokens {
					for r := range p.rows {
						checkDefinition(t, p, k, typ, i, r, got[i*p.rows+r])
					}
				}
				for i, v := range got {
					if e := math.Abs(float64(v - want[i])); !(e <= tolerance*float64(cols)) {
						t.Errorf("seed %d: %s %s %v output %d: %g, generic has %g", seed, k.Name, typ, s, i, v, want[i])
						break
					}
				}
			}
		}
	}
}

// tiled returns the activations of p in the form of prompts, and a token's share of them.
func (p *problem) tiled(k *Kernels, typ quant.Type) ([]byte, int) {
	form := k.PromptForm(typ)
	acts := make([]byte, form.TiledBytes(p.cols, p.tokens)+fetchLine)
	acts = acts[-uintptr(unsafe.Pointer(&acts[0]))&(fetchLine-1):]
	for i := 0; i*TileTokens < p.tokens; i++ {
		var rows [TileTokens]int32
		for j := range rows {
			rows[j] = int32(i*TileTokens + j)
		}
		k.Tile(form, acts, p.cols, p.tokens, i, p.x, &rows)
	}
	return acts, form.ActRow(p.cols)
}

// twin returns the definition of k's products.
func twin(k *Kernels) *Kernels {
	g := generic()
	if k.bfloat {
		g.bfloat, g.round = true, roundBF16Generic
		dot := dotBF16Generic
		if runtime.GOARCH == "arm64" {
			dot = dotPairsGeneric
		}
		for _, typ := range []quant.Type{quant.F16, quant.BF16} {
			if k.Form(typ) != BFloats {
				continue
			}
			g.types[typ] = tiles{rounded: k.types[typ].rounded, one: func(out *float32, _ uintptr, w *byte, rowBytes uintptr, x *byte, _, n uintptr) {
				*out = dot(typ, unsafe.Slice(w, rowBytes), unsafe.Slice((*uint16)(unsafe.Pointer(x)), n*bf16Group), int(n))
			}}
		}
	}
	return g
}

func checkDefinition(t *testing.T, p problem, k *Kernels, typ quant.Type, token, row int, got float32) {
	t.Helper()
	var want, mass, top float64
	for c := range p.cols {
		w, x := float64(p.dense[row*p.cols+c]), float64(p.x[token*p.cols+c])
		want += w * x
		mass += math.Abs(w)
		top = max(top, math.Abs(x))
	}
	tol := fmaTolerance * mass * top
	switch k.Form(typ) {
	case Int8:
		tol += actTolerance * mass * top
	case BFloats:
		tol += bf16Tolerance * mass * top
	}
	if math.Abs(want-float64(got)) > tol {
		t.Fatalf("%s %s %dx%d token %d row %d: %g, the definition gives %g ± %g", k.Name, typ, p.rows, p.cols, token, row, got, want, tol)
	}
}

// TestBatchInvariance: an output element has the same bits alone, in any batch, and among scattered rows.
func TestBatchInvariance(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	index := []int32{10, 0, 3, 3, 9, 7, 1}
	for _, k := range Variants() {
		for _, typ := range quant.Types() {
			for _, cols := range []int{768, 2304, 2304 + 32, 33} {
				if cols%typ.BlockElems() != 0 || typ.Like() != typ && cols > 768 {
					continue
				}
				p := newProblem(rng, typ, 11, cols, 19)
				all := p.multiply(t, k, typ)
				x, stride := p.activations(k, typ)
				rb := RowBytes(typ, p.cols)
				for i := range p.tokens {
					at := unsafe.Add(x, i*stride)
					for r := range p.rows {
						got := k.Dot(typ, p.packed[r*rb:][:rb], p.cols, at)
						if math.Float32bits(got) != math.Float32bits(all[i*p.rows+r]) {
							t.Fatalf("%s %s: row %d, token %d is %x alone and %x in a batch", k.Name, typ, r, i, got, all[i*p.rows+r])
						}
					}
					for _, name := range append(k.Ways(typ, Scattered), k.Way(typ, Scattered, 0)) { // leaves it as it was
						if name != "" {
							if err := k.Go(typ, Scattered, 0, name); err != nil {
								t.Fatal(err)
							}
						}
						out := make([]float32, len(index)+1)
						out[len(index)] = -12345
						k.DotRows(typ, out, p.packed, index, p.cols, at)
						for j, r := range index {
							if math.Float32bits(out[j]) != math.Float32bits(all[i*p.rows+int(r)]) {
								t.Fatalf("%s %s: row %d, token %d is %x by index (%s) and %x in a batch", k.Name, typ, r, i, out[j], name, all[i*p.rows+int(r)])
							}
						}
						if out[len(index)] != -12345 {
							t.Fatalf("%s %s: DotRows wrote outside its output", k.Name, typ)
						}
					}
				}
			}
		}
	}
}

// TestFewTokens: an output element has the same bits alone and among a few tokens.
func TestFewTokens(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range platform() {
		for _, typ := range quant.Types() {
			if typ.Like() != typ {
				continue
			}
			for _, s := range [][3]int{{4, 768, 2}, {7, 512, 3}, {13, 2304, 4}, {5, 768, 5}, {blockRows + 3, 512, 7}} { // rows, columns, tokens
				p := newProblem(rng, typ, s[0], s[1], s[2])
				x, stride := p.activations(k, typ)
				size := RowBytes(typ, p.cols)
				for i, v := range p.multiply(t, k, typ) {
					r := i % p.rows
					if got := k.Dot(typ, p.packed[r*size:][:size], p.cols, unsafe.Add(x, i/p.rows*stride)); math.Float32bits(got) != math.Float32bits(v) {
						t.Fatalf("%s %s %v: row %d, token %d is %x alone and %x in a batch", k.Name, typ, s, r, i/p.rows, got, v)
					}
				}
			}
		}
	}
}

// TestManyTokens: an output element has the same bits alone and among more tokens and columns than pass over a strip at
// once.
func TestManyTokens(t *testing.T) {
	rng := testenv.Rand(t)
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q4_K, quant.Q6_K} { // of six rows, of four, with halves
		for _, s := range [][3]int{{13, 512, stripAll + 7}, {6, 4096 + 256, 75}} {
			p := newProblem(rng, typ, s[0], s[1], s[2])
			for _, k := range platform() {
				all := p.multiply(t, k, typ)
				x, stride := p.activations(k, typ)
				size := RowBytes(typ, p.cols)
				for i := range all {
					r := i % p.rows
					if got := k.Dot(typ, p.packed[r*size:][:size], p.cols, unsafe.Add(x, i/p.rows*stride)); math.Float32bits(got) != math.Float32bits(all[i]) {
						t.Fatalf("%s %s %v: row %d, token %d is %x alone and %x in a batch", k.Name, typ, s, r, i/p.rows, got, all[i])
					}
				}
			}
		}
	}
}

// TestMatMulAllocatesNothing: products are in every token's loop. A pool may be emptied by the collector, hence the
// average.
func TestMatMulAllocatesNothing(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 20
	}
	rng := rand.New(rand.NewPCG(21, 0))
	for _, k := range platform() {
		for _, typ := range quant.Types() {
			p := newProblem(rng, typ, 8, 512, 20)
			x, stride := p.activations(k, typ)
			out := make([]float32, p.rows*p.tokens)
			for _, tokens := range []int{1, 5, 20} {
				if n := testing.AllocsPerRun(runs, func() { k.MatMul(typ, out, p.rows, p.packed, p.rows, p.cols, x, stride, tokens) }); n >= 1 {
					t.Errorf("%s %s with %d tokens: %g allocations", k.Name, typ, tokens, n)
				}
			}
		}
	}
}

// TestRoundBF16: the instruction gives the bits of the definition, ties, denormals, infinities and padding included.
func TestRoundBF16(t *testing.T) {
	rng := testenv.Rand(t)
	x := []float32{0, 1, -1, 0x1.01p0, 0x1.03p0, 0x1.018p0, -0x1.01p0, 1e-40, -1e-40, 0x1p-126, 3.4e38, float32(math.Inf(1)), float32(math.Inf(-1))}
	for len(x) < 77 {
		x = append(x, math.Float32frombits(rng.Uint32()&0xbfffffff))
	}
	want := make([]byte, bf16Acts(len(x))+canary)
	roundBF16Generic(want[:bf16Acts(len(x))], x)
	for _, k := range platform() {
		if !k.bfloat {
			continue
		}
		got := make([]byte, bf16Acts(len(x))+canary)
		k.round(got[:bf16Acts(len(x))], x)
		if !slices.Equal(got, want) {
			t.Errorf("%s rounds %v to % x, not % x", k.Name, x, got, want)
		}
	}
}

// TestQuantize: every variant gives the bytes of the definition, zero blocks, ties and padding included.
func TestQuantize(t *testing.T) {
	const seed = 9
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{256, 512, 32, 96, 4544} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			if i/32%3 == 1 {
				x[i] = float32(rng.IntN(255)-127) / 2 // halves: ties where the block's largest is 63.5
			}
			if i/32%5 == 2 {
				x[i] = 0
			}
		}
		want := make([]byte, ActRow(n)+canary)
		quantizeGeneric(want, x)
		for _, k := range platform() {
			got := make([]byte, ActRow(n)+canary)
			k.Quantize(got, x)
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s quantises %d elements differently from the definition", seed, k.Name, n)
			}
		}
	}
}

// quantised lists the types with quants.
func quantised() []quant.Type {
	return slices.DeleteFunc(quant.Types(), func(t quant.Type) bool { return !t.Quantised() })
}

// TestExtremes: the largest quants on both sides overflow no intermediate sum.
func TestExtremes(t *testing.T) {
	for _, typ := range quantised() {
		for _, sign := range []float32{1, -1} {
			for _, fill := range []byte{0x00, 0x7f, 0x80, 0xff} {
				raw := make([]byte, typ.RowBytes(512))
				for i := range raw {
					raw[i] = fill
				}
				for b := 0; b < len(raw); b += typ.BlockBytes() { // scales of 1
					typ.SetUnits(raw[b:][:typ.BlockBytes()], func() float32 { return 1 })
				}
				const rows, tokens, cols = 5, 18, 512 // one row and panels alike
				size := RowBytes(typ, cols)
				p := problem{rows: rows, cols: cols, tokens: tokens, dense: make([]float32, cols), x: make([]float32, tokens*cols), packed: make([]byte, rows*size)}
				quant.Decode(typ, p.dense, raw)
				for r := range rows {
					PackRow(typ, p.packed[r*size:][:size], raw, cols)
				}
				for i := range p.x {
					p.x[i] = sign * 127
				}
				want := 0.0
				for i, w := range p.dense {
					want += float64(w) * float64(p.x[i])
				}
				for _, k := range Variants() {
					for i, got := range p.multiply(t, k, typ) {
						if math.Abs(float64(got)-want) > 1e-5*math.Abs(want) {
							t.Fatalf("%s %s fill %#x sign %g output %d: %g, want %g", k.Name, typ, fill, sign, i, got, want)
						}
					}
				}
			}
		}
	}
}

// TestRoundRow: products with weights that were rounded before have the bits of those that round them.
func TestRoundRow(t *testing.T) {
	rng := testenv.Rand(t)
	const rows, tokens = 5, 3
	for _, k := range Variants() {
		to := k.RoundsTo(quant.F16)
		if to == quant.F16 {
			continue
		}
		for _, cols := range []int{7, 32, 45, 6144, 6150} {
			p := newProblem(rng, quant.F16, rows, cols, tokens)
			want := p.multiply(t, k, quant.F16)
			rounded := p
			rounded.packed = make([]byte, len(p.packed))
			for r := range rows {
				k.RoundRow(quant.F16, rounded.packed[2*cols*r:][:2*cols], p.packed[2*cols*r:][:2*cols], cols)
			}
			for i, v := range rounded.multiply(t, k, to) {
				if math.Float32bits(v) != math.Float32bits(want[i]) {
					t.Fatalf("%s, %d columns: output %d is %g, want %g", k.Name, cols, i, v, want[i])
				}
			}
		}
	}
}
