package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every binary16 number against its definition (IEEE 754: (-1)^s · 2^(e-15) · 1.f).
func TestHalfDefinition(t *testing.T) {
	for h := range 1 << 16 {
		s, e, f := h>>15, h>>10&31, h&1023
		var want float64
		switch {
		case e == 31 && f != 0:
			want = math.NaN()
		case e == 31:
			want = math.Inf(1)
		case e == 0:
			want = math.Ldexp(float64(f), -24)
		default:
			want = math.Ldexp(1+float64(f)/1024, e-15)
		}
		if s == 1 {
			want = -want
		}
		got := F32FromF16(uint16(h))
		if float64(got) != want && !(math.IsNaN(want) && math.IsNaN(float64(got))) {
			t.Fatalf("F32FromF16(%#04x) = %g, want %g", h, got, want)
		}
		if back := F16FromF32(got); back != uint16(h) && !math.IsNaN(want) {
			t.Fatalf("F16FromF32(%g) = %#04x, want %#04x", got, back, h)
		}
	}
}

// Rounding picks the nearer neighbour, the even one in a tie.
func TestHalfRounding(t *testing.T) {
	for h := range uint16(0x7bff) {
		a, b := F32FromF16(h), F32FromF16(h+1)
		mid := (a + b) / 2
		even := h + h&1
		for _, c := range []struct {
			x    float32
			want uint16
		}{{mid, even}, {math.Nextafter32(mid, a), h}, {math.Nextafter32(mid, b), h + 1}} {
			if got := F16FromF32(c.x); got != c.want {
				t.Fatalf("F16FromF32(%g) = %#04x, want %#04x", c.x, got, c.want)
			}
		}
	}
	if got := F16FromF32(65520); got != 0x7c00 {
		t.Errorf("65520 rounds to %#04x, not infinity", got)
	}
	for _, c := range []struct {
		x    float32
		want uint16
	}{{1, 0x3f80}, {math.Float32frombits(0x3f808000), 0x3f80}, {math.Float32frombits(0x3f818000), 0x3f82}, {math.Float32frombits(0x3f808001), 0x3f81}} {
		if got := BF16FromF32(c.x); got != c.want {
			t.Errorf("BF16FromF32(%x) = %#04x, want %#04x", math.Float32bits(c.x), got, c.want)
		}
	}
}

// Blocks written out by hand from the format's description.
func TestHandMadeBlocks(t *testing.T) {
	q4 := make([]byte, 18)
	putHalf(q4, 0.5)
	q4[2], q4[17] = 0x9f, 0x08
	var x [256]float32
	Decode(Q4_0, x[:32], q4)
	for i, want := range map[int]float32{0: 3.5, 16: 0.5, 15: 0, 31: -4, 1: -4} {
		if x[i] != want {
			t.Errorf("Q4_0 element %d = %g, want %g", i, x[i], want)
		}
	}
	q4k := make([]byte, 144)
	putHalf(q4k, 2)
	putHalf(q4k[2:], 0.5)
	q4k[4], q4k[8] = 0x40|3, 0x80|5 // sub-block 0: scale 3, min 5; high bits of sub-block 4
	q4k[12] = 0x21                  // sub-block 4: scale 1+16, min 2+32
	q4k[16], q4k[16+64] = 0x07, 0x04
	Decode(Q4_K, x[:], q4k)
	for i, want := range map[int]float32{0: 2*3*7 - 2.5, 1: -2.5, 128: 2*17*4 - 17, 32: 0} {
		if x[i] != want {
			t.Errorf("Q4_K element %d = %g, want %g", i, x[i], want)
		}
	}
	q6k := make([]byte, 210)
	putHalf(q6k[208:], 0.25)
	q6k[192], q6k[192+15] = 2, 0xff
	q6k[0], q6k[128] = 0x05, 0x02 // element 0: 5+2·16
	q6k[127], q6k[191] = 0x70, 0xc0
	Decode(Q6_K, x[:], q6k)
	for i, want := range map[int]float32{0: 0.25 * 2 * 5, 255: -0.25 * (7 + 48 - 32), 1: -16} {
		if x[i] != want {
			t.Errorf("Q6_K element %d = %g, want %g", i, x[i], want)
		}
	}
}

// TestRoundTrip bounds each type's error by its step.
func TestRoundTrip(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	x, y := make([]float32, 1024), make([]float32, 1024)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	// Relative to the largest magnitude of 1024 normal values (about 3.5): half a step of the type.
	for typ, tol := range map[Type]float32{F32: 0, F16: 1e-3, BF16: 8e-3, Q8_0: 0.005, Q4_0: 0.13, Q4_1: 0.07, Q4_K: 0.1, Q5_K: 0.05, Q6_K: 0.03} {
		b := make([]byte, typ.RowBytes(len(x)))
		Encode(typ, b, x)
		Decode(typ, y, b)
		for i := range x {
			if e := float32(math.Abs(float64(x[i] - y[i]))); e > tol*3.5 {
				t.Errorf("seed %d: %s element %d: %g became %g", seed, typ, i, x[i], y[i])
				break
			}
		}
	}
}
