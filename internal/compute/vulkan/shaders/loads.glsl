// What weights.glsl loads from the binding WEIGHTS. A shader of two matrices includes it once more, with other names for all that is in it.

layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightQuads { uvec4 weightQuads[]; };
layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightPairs { uvec2 weightPairs[]; };
layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightWords { uint weightWords[]; };

// rawScale is what memory has of the scale of a unit, counted from the first of all rows.
uvec4 rawScale(Weights w, uint unit) {
	uint first = HIGH_BITS ? w.b : w.a, second = HIGH_BITS ? w.c : w.b;
	if (SCALES == SIX_BITS)
		return weightQuads[first / 4 + unit / 8];
	uvec4 raw = uvec4(0);
	if (SCALES == BLOCK_SCALE)
		raw.x = weightWords[first + unit / 2];
	else if (SCALES == BLOCK_MIN)
		raw.x = weightWords[first + unit];
	else if (SCALES == HALF_BLOCKS || SCALES == NIBBLE_MINIMA || SCALES == SMALL_FLOATS)
		raw.x = weightWords[first + unit / 2];
	else if (SCALES == BYTE_BLOCKS || SCALES == EXPONENTS)
		raw.x = weightWords[first + unit / 4];
	else if (SCALES == SUPER_SCALE)
		raw.x = weightWords[first + unit / 16];
	if (SCALES == HALF_BLOCKS || SCALES == BYTE_BLOCKS)
		raw.y = weightWords[second + unit / 16];
	else if (SCALES == NIBBLE_MINIMA)
		raw.y = weightWords[second + unit / 8];
	else if (SCALES == SMALL_FLOATS)
		raw.y = weightWords[second + unit / w.units];
	return raw;
}

// scaleOf is the scale of a unit, counted from the first of all rows.
Scale scaleOf(Weights w, uint unit) { return scaleFrom(rawScale(w, unit), unit); }

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
