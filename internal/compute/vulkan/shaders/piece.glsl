// Pieces of weights: what an invocation loads at once as it lies in memory, to make halves of it later. A piece of floats is eight
// elements; one of quants is half a unit. Halves come as two runs of eight consecutive elements; floats have the first alone.

const uint PIECE = QUANTISED ? 16 : 8;

struct Piece {
	uvec4 low;
	uvec2 high;
	uvec4 scales, more; // raw; of groups a half for each element
};

// run is the element, counted from the row's first, that run i of piece p begins with.
uint run(uint p, uint i) { return !QUANTISED ? 8 * p : BITS == 8 ? 16 * p + 8 * i : p / 2 * 32 + p % 2 * 8 + 16 * i; }

uint pieces(Weights w) { return w.units * 2; }

Piece loadPiece(Weights w, uint row, uint p) {
	Piece v;
	if (!QUANTISED) {
		v.low = weightQuads[row * pieces(w) + p];
		return v;
	}
	uint unit = row * w.units + p / 2;
	if (BITS == 8)
		v.low = weightQuads[2 * unit + p % 2];
	else
		v.low.xy = weightPairs[PAIRS ? unit : 2 * unit + p % 2];
	if (HIGH_BIT)
		v.high.x = weightWords[w.a + unit];
	else if (HIGH_BITS)
		v.high = weightPairs[w.a / 2 + unit];
	if (GROUPED) {
		uint at = w.a / 4 + row / 32 * w.units * 4;
		v.scales = weightQuads[at + run(p, 0) / 8];
		v.more = weightQuads[at + run(p, 1) / 8];
	} else {
		v.scales = rawScale(w, unit);
	}
	return v;
}

// Bytes become halves by bits: 1024 + q is a half whose lowest bits are q. Signed ones are moved to positive ones before.
const bool SIGNED = CODEBOOK != 0 || BITS == 8;
const int MOVED = 1024 + OFFSET + (SIGNED ? 128 : 0);

f16vec2 halvesOf(uint pair) { return unpackFloat2x16(pair & 0x00ff00ffu | 0x64006400u) - f16vec2(MOVED); }

// eight are the halves of two words of bytes.
uvec4 eight(ivec2 bytes, Scale s, bool second, uvec4 each) {
	uvec4 r;
	[[unroll]] for (uint i = 0; i < 2; i++) {
		uint b = uint(bytes[i]) ^ (SIGNED ? 0x80808080u : 0);
		f16vec2 even = halvesOf(b), odd = halvesOf(b >> 8); // elements 0 and 2, 1 and 3
		f16vec2 x = f16vec2(even.x, odd.x), y = f16vec2(even.y, odd.y);
		if (GROUPED) {
			x *= unpackFloat2x16(each[2 * i]);
			y *= unpackFloat2x16(each[2 * i + 1]);
		} else if (SCALES == BLOCK_SCALE && HALVINGS == 0) { // a product of two halves is rounded once
			x *= float16_t(s.d);
			y *= float16_t(s.d);
		} else {
			float scale = SCALES == SMALL_FLOATS ? (second ? s.m : s.d) : s.d * float(second ? s.s.y : s.s.x);
			float least = MINIMA ? -s.m * float(second ? s.least.y : s.least.x) : 0;
			vec2 u = vec2(x), v = vec2(y);
			if (MINIMA) { // products are exact
				x = f16vec2(fma(vec2(scale), u, vec2(least)));
				y = f16vec2(fma(vec2(scale), v, vec2(least)));
			} else {
				x = f16vec2(scale * u);
				y = f16vec2(scale * v);
			}
		}
		r[2 * i] = packFloat2x16(x);
		r[2 * i + 1] = packFloat2x16(y);
	}
	return r;
}

// bytesOfPiece are both runs of a quantised piece, the second of its unit or the first, as signed bytes.
void bytesOfPiece(Piece v, bool last, out ivec2 first, out ivec2 second) {
	if (BITS == 8) {
		first = ivec2(v.low.xy);
		second = ivec2(v.low.zw);
		return;
	}
	uint k = last ? 2 : 0;
	ivec2 a = bytesOf(v.low.x, v.high.x, k), b = bytesOf(v.low.y, HIGH_BIT ? v.high.x : v.high.y, k + 1);
	first = ivec2(a.x, b.x);
	second = ivec2(a.y, b.y);
}

// halvesOfPiece are both runs of piece p of a row.
void halvesOfPiece(Weights w, Piece v, uint row, uint p, out uvec4 first, out uvec4 second) {
	if (!QUANTISED) {
		first = v.low;
		second = uvec4(0);
		return;
	}
	Scale s = scaleFrom(v.scales, row * w.units + p / 2);
	bool last = p % 2 == 1;
	ivec2 a, b;
	bytesOfPiece(v, last, a, b);
	first = eight(a, s, BITS == 8 && last, v.scales);
	second = eight(b, s, BITS != 8 || last, v.more);
}
