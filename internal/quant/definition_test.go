package quant

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// element is element e of a block as the format describes it: one formula per element, where the decoders walk the
// bytes. d, dmin and scales are read from their places; products are rounded to float32 in the decoders' order.
func element(t Type, b []byte, e int) float32 {
	f16 := func(at int) float32 { return F32FromF16(binary.LittleEndian.Uint16(b[at:])) }
	bits := func(at, from, n int) int { return int(b[at]) >> from & (1<<n - 1) }
	switch t {
	case Q4_0:
		return f16(0) * float32(bits(2+e%16, e/16*4, 4)-8)
	case Q4_1:
		product := f16(0) * float32(bits(4+e%16, e/16*4, 4))
		return product + f16(2)
	case Q8_0:
		return f16(0) * float32(int8(b[2+e]))
	case Q4_K:
		j := e / 32
		var scale, least int
		if j < 4 {
			scale, least = bits(4+j, 0, 6), bits(8+j, 0, 6)
		} else {
			scale = bits(8+j, 0, 4) + 16*bits(j, 6, 2)
			least = bits(8+j, 4, 4) + 16*bits(4+j, 6, 2)
		}
		q := bits(16+e/64*32+e%32, e/32%2*4, 4)
		product := f16(0) * float32(scale) * float32(q)
		return product - f16(2)*float32(least)
	case Q5_K:
		j := e / 32
		var scale, least int
		if j < 4 {
			scale, least = bits(4+j, 0, 6), bits(8+j, 0, 6)
		} else {
			scale = bits(8+j, 0, 4) + 16*bits(j, 6, 2)
			least = bits(8+j, 4, 4) + 16*bits(4+j, 6, 2)
		}
		q := bits(48+e/64*32+e%32, e/32%2*4, 4) + 16*bits(16+e%32, j, 1)
		product := f16(0) * float32(scale) * float32(q)
		return product - f16(2)*float32(least)
	case Q6_K:
		half, quarter, i := e/128, e/32%4, e%32
		low := bits(half*64+quarter%2*32+i, quarter/2*4, 4)
		high := bits(128+half*32+i, quarter*2, 2)
		return f16(208) * float32(int8(b[192+e/16])) * float32(low+16*high-32)
	case Q5_0:
		return f16(0) * float32(bits(6+e%16, e/16*4, 4)+16*bits(2+e/8, e%8, 1)-16)
	case Q5_1:
		product := f16(0) * float32(bits(8+e%16, e/16*4, 4)+16*bits(4+e/8, e%8, 1))
		return product + f16(2)
	case Q2_K:
		product := f16(80) * float32(bits(e/16, 0, 4)) * float32(bits(16+e/128*32+e%32, e/32%4*2, 2))
		return product - f16(82)*float32(bits(e/16, 4, 4))
	case Q3_K:
		g := e / 16
		scale := bits(96+g%8, g/8*4, 4) + 16*bits(104+g%4, g/4*2, 2) - 32
		q := bits(32+e/128*32+e%32, e/32%4*2, 2) - 4*(1-bits(e%32, e/32, 1))
		return f16(108) * float32(scale) * float32(q)
	case IQ4_NL:
		return f16(0) * iq4[bits(2+e%16, e/16*4, 4)]
	case IQ4_XS:
		j := e / 32
		scale := bits(4+j/2, j%2*4, 4) + 16*bits(2+j/4, j%4*2, 2) - 32
		return f16(0) * float32(scale) * iq4[bits(8+16*j+e%16, e%32/16*4, 4)]
	case MXFP4:
		return float32(math.Ldexp(e2m1(bits(1+e%16, e/16*4, 4)), int(b[0])-127))
	case Q1_0:
		return f16(0) * float32(2*bits(2+e/8, e%8, 1)-1)
	case Q2_0:
		return f16(0) * float32(bits(2+e/4, e%4*2, 2)-1)
	case NVFP4: // four bits of exponent, three of mantissa
		m, exponent := float64(8+bits(e/16, 0, 3)), bits(e/16, 3, 4)
		if exponent == 0 {
			m, exponent = m-8, 1
		}
		return float32(e2m1(bits(4+e/16*8+e%8, e%16/8*4, 4)) * math.Ldexp(m, exponent-7-3))
	}
	return gridElement(t, b, e)
}

// e2m1 is the float of a sign, two bits of exponent and one of mantissa.
func e2m1(code int) float64 {
	v := math.Ldexp(float64(2+code&1), max(1, code>>1&3)-2)
	if code>>1&3 == 0 {
		v = float64(code&1) / 2
	}
	return v * float64(1-2*(code>>3))
}

// iq4 are the values of IQ4's codes.
var iq4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// gridElement is element of the types with grids, and of the ternary ones. sevens returns sign i of eight, of which
// seven are in bits from so many on of a word, and the eighth makes their product one.
func gridElement(t Type, b []byte, e int) float32 {
	f16 := func(at int) float32 { return F32FromF16(binary.LittleEndian.Uint16(b[at:])) }
	bits := func(at, from, n int) int { return int(b[at]) >> from & (1<<n - 1) }
	word := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	long := func(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	sign := func(bit int) float32 { return float32(1 - 2*(bit&1)) }
	sevens := func(w, from, i int) float32 {
		if i < 7 {
			return sign(w >> (from + i))
		}
		product := float32(1)
		for k := range 7 {
			product *= sign(w >> (from + k))
		}
		return product
	}
	of := func(g *codeGrid, entry, i int) int { return int(g.entries[entry]) >> (g.bits * i) & (1<<g.bits - 1) }
	two, three := [3]float32{8, 25, 43}, [8]float32{4, 12, 20, 28, 36, 44, 52, 62}
	j, i := e/32, e%8
	switch t {
	case IQ3_XXS:
		w := long(66 + 4*j)
		return f16(0) * (float32(w>>28) + 0.5) * 0.5 * three[of(gridIQ3XXS(), int(b[2+e/4]), e%4)] * sevens(w, e%32/8*7, i)
	case IQ3_S:
		entry := int(b[2+e/4]) + 256*bits(66+e/32, e%32/4, 1)
		return f16(0) * float32(1+2*bits(106+j/2, j%2*4, 4)) * float32(1+2*of(gridIQ3S(), entry, e%4)) * sign(bits(74+e/8, i, 1))
	case IQ2_XXS:
		w := long(2 + 8*j + 4)
		return f16(0) * (float32(w>>28) + 0.5) * 0.25 * two[of(gridIQ2XXS(), int(b[2+8*j+e%32/8]), i)] * sevens(w, e%32/8*7, i)
	case IQ2_XS:
		w := word(2 + 2*(e/8))
		return f16(0) * (float32(bits(66+j, e%32/16*4, 4)) + 0.5) * 0.25 * two[of(gridIQ2XS(), w%512, i)] * sevens(w, 9, i)
	case IQ2_S:
		entry := int(b[2+e/8]) + 256*bits(66+j, e%32/8*2, 2)
		return f16(0) * (float32(bits(74+j, e%32/16*4, 4)) + 0.5) * 0.25 * two[of(gridIQ2S(), entry, i)] * sign(bits(34+e/8, i, 1))
	case IQ1_S:
		w := word(34 + 2*j)
		entry := int(b[2+e/8]) + 256*(w>>(e%32/8*3)&7)
		return f16(0) * float32(2*(w>>12&7)+1) * (float32(of(gridIQ1(), entry, i)-1) + 0.125*sign(w>>15))
	case IQ1_M:
		d := F32FromF16(uint16(word(48)>>12 + word(50)>>12<<4 + word(52)>>12<<8 + word(54)>>12<<12))
		entry := int(b[e/8]) + 256*bits(32+e/16, e/8%2*4, 3)
		scale := word(48+e/64*2) >> (e / 16 % 4 * 3) & 7
		return d * float32(2*scale+1) * (float32(of(gridIQ1(), entry, i)-1) + 0.125*sign(bits(32+e/16, e/8%2*4+3, 1)))
	case TQ2_0:
		return f16(64) * float32(bits(e/128*32+e%32, e/32%4*2, 2)-1)
	case TQ1_0:
		at, digit := e%32, e/32
		switch {
		case e >= 240:
			at, digit = 48+e%4, (e-240)/4
		case e >= 160:
			at, digit = 32+e%16, (e-160)/16
		}
		shifted := int(b[at]) * int(math.Pow(3, float64(digit))) % 256
		return f16(52) * float32(shifted*3/256-1)
	}
	panic("no block type")
}

// TestBlockDefinition decodes random bytes, which are valid blocks once their scales are finite.
func TestBlockDefinition(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, typ := range Types() {
		if typ.Float() {
			continue
		}
		n, size := typ.BlockElems(), typ.BlockBytes()
		for range 50 {
			const blocks = 3
			b, x := make([]byte, blocks*size), make([]float32, blocks*n)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			for k := range blocks {
				typ.SetUnits(b[k*size:][:size], func() float32 { return float32(rng.NormFloat64()) })
			}
			Decode(typ, x, b)
			for i, got := range x {
				if want := element(typ, b[i/n*size:], i%n); got != want {
					t.Fatalf("seed %d: %s element %d is %g, want %g", seed, typ, i, got, want)
				}
			}
		}
	}
}

// nearest returns the half-precision number nearest to x by search over the exhaustively tested widening, ties to the
// even one.
func nearest(x float32) uint16 {
	lo, hi := uint16(0), uint16(0x7c00) // finite numbers and infinity, in order
	a := math.Abs(float64(x))
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; float64(F32FromF16(mid)) <= a {
			lo = mid
		} else {
			hi = mid
		}
	}
	below, above := float64(F32FromF16(lo)), float64(F32FromF16(hi))
	if hi == 0x7c00 {
		above = 65536 // where the next number would be, were there another exponent
	}
	if a-below > above-a || a-below == above-a && lo&1 == 1 {
		lo = hi
	}
	if math.Signbit(float64(x)) {
		lo |= 0x8000
	}
	return lo
}

func TestHalfNearest(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	check := func(x float32) {
		if got, want := F16FromF32(x), nearest(x); got != want {
			t.Fatalf("seed %d: F16FromF32(%g = %#08x) = %#04x, want %#04x", seed, x, math.Float32bits(x), got, want)
		}
	}
	for range 500_000 {
		check(math.Float32frombits(rng.Uint32()&^0x7f800000 | uint32(90+rng.IntN(60))<<23)) // 2^-37 to 2^22
	}
	for _, x := range []float32{0, 65504, 65519.996, 65520, 65536, math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-24, 0x1p-25, 0x1.000002p-25, 0x1p-14, 0x1.ffcp-15, 0x1.ffep-15} {
		check(x)
		check(-x)
	}
	check(float32(math.Copysign(0, -1)))
	for _, sign := range []int{1, -1} {
		inf := float32(math.Inf(sign))
		if got := F32FromF16(F16FromF32(inf)); got != inf {
			t.Errorf("infinity became %g in F16", got)
		}
		if got := F32FromBF16(BF16FromF32(inf)); got != inf {
			t.Errorf("infinity became %g in BF16", got)
		}
	}
	for _, nan := range []uint32{0x7f800001, 0x7fc00000, 0xff800001, 0xffffffff, 0x7f801fff, 0x7f80ffff} {
		x := math.Float32frombits(nan)
		if f := F32FromF16(F16FromF32(x)); f == f {
			t.Errorf("NaN %#08x became %g in F16", nan, f)
		}
		if f := F32FromBF16(BF16FromF32(x)); f == f {
			t.Errorf("NaN %#08x became %g in BF16", nan, f)
		}
	}
}

// TestBF16Rounding compares every BF16 number and the midpoint above it with the definition: the upper half of a
// float32, ties to even.
func TestBF16Rounding(t *testing.T) {
	for h := range uint32(1 << 16) {
		x := math.Float32frombits(h << 16)
		if x != x || math.IsInf(float64(x), 0) {
			continue
		}
		for low, want := range map[uint32]uint32{0: h, 0x7fff: h, 0x8000: h + h&1, 0x8001: h + 1, 0xffff: h + 1} {
			if got := BF16FromF32(math.Float32frombits(h<<16 | low)); uint32(got) != want {
				t.Fatalf("BF16FromF32(%#08x) = %#04x, want %#04x", h<<16|low, got, want)
			}
		}
	}
}

// TestReferenceRounding pins what ggml's reference quantisers do where another rounding would also look right.
func TestReferenceRounding(t *testing.T) {
	x, b := make([]float32, QK), make([]byte, 34)
	// Q8_0: d = amax/127 = 1, halves away from zero.
	x[0], x[1], x[2], x[3], x[4] = -127, 0.5, -0.5, 2.5, -2.49
	Encode(Q8_0, b, x)
	for i, want := range []int8{-127, 1, -1, 3, -2, 0} {
		if got := int8(b[2+i]); got != want {
			t.Errorf("Q8_0: %g became %d, want %d", x[i], got, want)
		}
	}
	if half(b) != 1 {
		t.Errorf("Q8_0: d = %g, want 1", half(b))
	}
	// Q4_0: the value of largest magnitude becomes -8 with its sign in d; its opposite would be +8 and is cut to +7.
	clear(x)
	x[0], x[1], x[2], x[3], x[4] = 8, -8, 0.5, 0.49, 1.5
	Encode(Q4_0, b[:18], x)
	if half(b) != -1 {
		t.Errorf("Q4_0: d = %g, want -1", half(b))
	}
	// int(x/d + 8.5): 0.5/-1 + 8.5 = 8, 0.49/-1 + 8.5 = 8.01, 1.5/-1 + 8.5 = 7
	for i, want := range []byte{0, 15, 8, 8, 7, 8} {
		if got := b[2+i] & 15; got != want {
			t.Errorf("Q4_0: %g became %d, want %d", x[i], got, want)
		}
	}
	// Q4_1: the smallest becomes 0, the largest 15; halves are rounded up.
	clear(x)
	x[0], x[1], x[2], x[3] = -5, 10, 2.5, -2.51
	Encode(Q4_1, b[:20], x)
	if d, m := half(b), half(b[2:]); d != 1 || m != -5 {
		t.Errorf("Q4_1: d = %g, m = %g, want 1 and -5", d, m)
	}
	for i, want := range []byte{0, 15, 8, 2, 5} {
		if got := b[4+i] & 15; got != want {
			t.Errorf("Q4_1: %g became %d, want %d", x[i], got, want)
		}
	}
	// Of two equal magnitudes the first gives d its sign.
	clear(x)
	x[0], x[1] = -8, 8
	if Encode(Q4_0, b[:18], x); half(b) != 1 {
		t.Errorf("Q4_0: d = %g, want 1", half(b))
	}
}

// TestEncodeShapes: each type's error stays below its step on the shapes that are easily forgotten. The steps are
// relative to the largest magnitude of the block's neighbours with the same scale.
func TestEncodeShapes(t *testing.T) {
	const seed = 9
	rng := rand.New(rand.NewPCG(seed, 0))
	shapes := map[string]func(i int) float32{
		"zero":           func(int) float32 { return 0 },
		"constant":       func(int) float32 { return 3 },
		"negative":       func(int) float32 { return -1 - rng.Float32() },
		"positive":       func(int) float32 { return 1 + rng.Float32() },
		"one value":      func(i int) float32 { return map[bool]float32{true: -4}[i == 77] },
		"small":          func(int) float32 { return (rng.Float32() - 0.5) * 0.2 }, // scales still normal in binary16, or nearly
		"uneven":         func(i int) float32 { return (rng.Float32() - 0.5) * float32(1+i/32) },
		"opposite signs": func(i int) float32 { return float32(1-2*(i%2)) * (1 + rng.Float32()) },
	}
	// Of the largest magnitude: half a step where the grid spans it, a whole one where Q4_0 and Q6_K cut its opposite
	// (+8 or +32 of a scale to +7 or +31), and on top what six-bit (Q4_K) or eight-bit (Q6_K) scales and minima round.
	tol := map[Type]float64{Q4_1: 1./15 + 1e-2, Q8_0: 0.5/127 + 1e-3, Q4_0: 1./8 + 1e-3, Q4_K: 1./15 + 3./126 + 1e-2, Q5_K: 1./31 + 3./126 + 1e-2, Q6_K: 1./32 + 1./256 + 1e-3}
	x, y := make([]float32, QKK), make([]float32, QKK)
	for name, f := range shapes {
		top := 0.0
		for i := range x {
			x[i] = f(i)
			top = max(top, math.Abs(float64(x[i])))
		}
		for typ, limit := range tol {
			b := make([]byte, typ.RowBytes(QKK))
			for i := range b {
				b[i] = 0xa5 // what lay there before must not shine through
			}
			Encode(typ, b, x)
			Decode(typ, y, b)
			for i := range x {
				if e := math.Abs(float64(x[i] - y[i])); !(e <= limit*top) {
					t.Errorf("seed %d: %s, %s: element %d: %g became %g, off by %g of %g", seed, typ, name, i, x[i], y[i], e/top, limit)
					break
				}
			}
		}
	}
}

// TestSizesAreChecked: a wrong length is a broken invariant of the caller.
func TestSizesAreChecked(t *testing.T) {
	for name, f := range map[string]func(){
		"half a block":   func() { Decode(Q4_0, make([]float32, 16), make([]byte, 9)) },
		"short source":   func() { Decode(Q8_0, make([]float32, 32), make([]byte, 33)) },
		"long target":    func() { Encode(F16, make([]byte, 5), make([]float32, 2)) },
		"half a superbl": func() { Encode(Q6_K, make([]byte, 105), make([]float32, 128)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			f()
		}()
	}
}

// Loading decodes rows one by one: no allocation, and far from slow.
func BenchmarkDecode(b *testing.B) {
	for _, typ := range Types() {
		b.Run(typ.String(), func(b *testing.B) {
			x := make([]float32, 4096)
			src := make([]byte, typ.RowBytes(len(x)))
			for i := range x {
				x[i] = float32(i%31) - 15
			}
			if !typ.OnGrid() {
				Encode(typ, src, x)
			}
			b.SetBytes(int64(4 * len(x)))
			b.ReportAllocs()
			for b.Loop() {
				Decode(typ, x, src)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, typ := range OutTypes() {
		b.Run(typ.String(), func(b *testing.B) {
			x := make([]float32, 4096)
			dst := make([]byte, typ.RowBytes(len(x)))
			for i := range x {
				x[i] = float32(i%31) - 15
			}
			b.SetBytes(int64(4 * len(x)))
			b.ReportAllocs()
			for b.Loop() {
				Encode(typ, dst, x)
			}
		})
	}
}
