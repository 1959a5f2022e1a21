// What weights.glsl loads from the binding WEIGHTS. A shader of two matrices includes it once more, with other names for all that is in it.

layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightQuads { uvec4 weightQuads[]; };
layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightPairs { uvec2 weightPairs[]; };
layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightWords { uint weightWords[]; };

// halfAt is element i of an array of halves that begins at a word.
float halfAt(uint word, uint i) { return unpackHalf2x16(weightWords[word + i / 2] >> 16 * (i & 1)).x; }

// byteAt is element i of an array of signed bytes that begins at a word.
int byteAt(uint word, uint i) { return bitfieldExtract(int(weightWords[word + i / 4]), int(8 * (i & 3)), 8); }

// scaleOf is the scale of a unit, counted from the first of all rows.
Scale scaleOf(Weights w, uint unit) {
	Scale s = Scale(0, 0, ivec2(1), ivec2(1));
	uint first = HIGH_BITS ? w.b : w.a, second = HIGH_BITS ? w.c : w.b;
	if (SCALES == BLOCK_SCALE) {
		s.d = halfAt(first, unit);
	} else if (SCALES == BLOCK_MIN) {
		vec2 both = unpackHalf2x16(weightWords[first + unit]);
		s.d = both.x;
		s.m = -both.y;
	} else if (SCALES == SIX_BITS) {
		uvec4 head = weightQuads[first / 4 + unit / 8];
		uint at = 8 * (unit & 3), low = head.y >> at, mid = head.z >> at, high = head.w >> at;
		vec2 d = unpackHalf2x16(head.x);
		s.d = d.x;
		s.m = d.y;
		if ((unit & 4) == 0) {
			s.s = ivec2(low & 63);
			s.least = ivec2(mid & 63);
		} else {
			s.s = ivec2(high & 15 | low >> 6 << 4 & 48);
			s.least = ivec2(high >> 4 & 15 | mid >> 6 << 4 & 48);
		}
	} else if (SCALES == HALF_BLOCKS) {
		int both = int(weightWords[first + unit / 2] >> 16 * (unit & 1));
		s.d = halfAt(second, unit / 8);
		s.s = ivec2(bitfieldExtract(both, 0, 8), bitfieldExtract(both, 8, 8));
	} else if (SCALES == BYTE_BLOCKS) {
		s.d = halfAt(second, unit / 8);
		s.s = ivec2(byteAt(first, unit));
	} else if (SCALES == NIBBLE_MINIMA) {
		uint both = weightWords[first + unit / 2] >> 16 * (unit & 1);
		vec2 d = unpackHalf2x16(weightWords[second + unit / 8]);
		s.d = d.x;
		s.m = d.y;
		s.s = ivec2(both & 15, both >> 8 & 15);
		s.least = ivec2(both >> 4 & 15, both >> 12 & 15);
	} else if (SCALES == EXPONENTS) {
		s.d = powerOf(byteAt(first, unit) & 255);
	} else if (SCALES == SUPER_SCALE) {
		s.d = halfAt(first, unit / 8);
	} else if (SCALES == SMALL_FLOATS) {
		uint both = weightWords[first + unit / 2] >> 16 * (unit & 1);
		vec2 d = unpackHalf2x16((both & 255 | (both & 0xff00u) << 8) << SCALE_SHIFT) * uintBitsToFloat(weightWords[second + unit / w.units]);
		s.d = d.x;
		s.m = d.y;
	}
	if (HALVINGS > 0)
		s.d *= powerOf(127 - HALVINGS);
	return s;
}

// quantsOf are elements 4k… and 16+4k… of a quantised unit as signed bytes.
ivec2 quantsOf(Weights w, uint unit, uint k) {
	if (BITS == 8)
		return ivec2(weightWords[8 * unit + k], weightWords[8 * unit + 4 + k]);
	uint high = HIGH_BIT ? weightWords[w.a + unit] : HIGH_BITS ? weightWords[w.a + 2 * unit + (k & 1)] : 0;
	return bytesOf(weightWords[PAIRS ? 2 * unit + (k & 1) : 4 * unit + k], high, k);
}

// unitQuants are all elements of a quantised unit, in the longest loads there are.
void unitQuants(Weights w, uint unit, out int q[8]) {
	if (BITS == 8) {
		ivec4 low = ivec4(weightQuads[2 * unit]), high = ivec4(weightQuads[2 * unit + 1]);
		q = int[8](low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
		return;
	}
	uvec4 low = PAIRS ? weightPairs[unit].xyxy : weightQuads[unit];
	uvec2 high = HIGH_BIT ? uvec2(weightWords[w.a + unit]) : HIGH_BITS ? weightPairs[w.a / 2 + unit] : uvec2(0);
	[[unroll]] for (uint k = 0; k < 4; k++) {
		ivec2 both = bytesOf(low[k], high[k & 1], k);
		q[k] = both.x;
		q[k + 4] = both.y;
	}
}

// floatsOf are the eight elements that begin in quad i of a float type, two of its quads in F32.
void floatsOf(uint i, out float f[8]) {
	if (TYPE == F32) {
		vec4 low = uintBitsToFloat(weightQuads[2 * i]), high = uintBitsToFloat(weightQuads[2 * i + 1]);
		f = float[8](low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
		return;
	}
	uvec4 q = weightQuads[i];
	[[unroll]] for (uint j = 0; j < 4; j++) {
		vec2 pair = TYPE == F16 ? unpackHalf2x16(q[j]) : uintBitsToFloat(uvec2(q[j] << 16, q[j] & 0xffff0000u));
		f[2 * j] = pair.x;
		f[2 * j + 1] = pair.y;
	}
}
