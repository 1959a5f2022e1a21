// Weights as matrix.go lays them out. An includer defines WEIGHTS, their binding.
//
// A row is cut into units: 8 elements of F32, 16 of F16 and BF16, 32 of quantised types. A float unit is 32 bytes. The quants
// of a quantised unit are words: word k of four has elements 4k… in its low nibbles and 16+4k… in its high ones, or word k of
// eight elements 4k…. What else there is lies apart, behind the quants of all rows, where the regions of Weights say, one after the other:
//
//	5 bits       a word for each unit, which has in bit v of its bytes the fifth bits of elements 4v…
//	6 bits       two words for each unit; word h has in bit pair f of its bytes the high bits of elements 4(2f+h)…
//
//	BLOCK_SCALE  a half for each unit
//	BLOCK_MIN    a half for each unit and another, its minimum
//	SIX_BITS     for each superblock of eight units the sixteen bytes that begin it in the file
//	HALF_BLOCKS  two signed bytes for each unit, one for each half; then a half for each superblock

#include "types.glsl"

const bool QUANTISED = BITS > 0;
const bool HIGH_BITS = BITS > 4 && BITS < 8; // bits of quants above the fourth are the first region
const uint UNIT = QUANTISED ? 32 : TYPE == F32 ? 8 : 16;

layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightQuads { uvec4 weightQuads[]; };
layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightPairs { uvec2 weightPairs[]; };
layout(set = 0, binding = WEIGHTS, std430) readonly buffer WeightWords { uint weightWords[]; };

// Weights is where the parts of a matrix lie in its binding.
struct Weights {
	uint units;   // of a row
	uint a, b, c; // regions, in words
};

// halfAt is element i of an array of halves that begins at a word.
float halfAt(uint word, uint i) { return unpackHalf2x16(weightWords[word + i / 2] >> 16 * (i & 1)).x; }

const uint LOW = 0x0f0f0f0fu, PAIR = 0x03030303u, ONE = 0x01010101u;

// Scale turns the integer sums of a unit into numbers. Of types with minima element q is d·s0·q - m·s1, of others d·s·(q - OFFSET) with s0
// as s in the unit's first half and s1 in its second.
struct Scale {
	float d, m;
	int s0, s1;
};

// scaleOf is the scale of a unit, counted from the first of all rows.
Scale scaleOf(Weights w, uint unit) {
	Scale s = Scale(0, 0, 1, 1);
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
			s.s0 = int(low & 63);
			s.s1 = int(mid & 63);
		} else {
			s.s0 = int(high & 15 | low >> 6 << 4 & 48);
			s.s1 = int(high >> 4 & 15 | mid >> 6 << 4 & 48);
		}
	} else if (SCALES == HALF_BLOCKS) {
		uint both = weightWords[first + unit / 2] >> 16 * (unit & 1);
		s.d = halfAt(second, unit / 8);
		s.s0 = bitfieldExtract(int(both), 0, 8);
		s.s1 = bitfieldExtract(int(both), 8, 8);
	}
	return s;
}

// bytesOf are elements 4k… and 16+4k… of a unit as bytes, from their word of nibbles and their word of high bits, if any.
ivec2 bytesOf(uint nibbles, uint high, uint k) {
	if (!HIGH_BITS)
		return ivec2(nibbles & LOW, nibbles >> 4 & LOW);
	if (BITS == 5)
		return ivec2(nibbles & LOW | (high >> k & ONE) << 4, nibbles >> 4 & LOW | (high >> (k + 4) & ONE) << 4);
	high >>= 2 * (k >> 1);
	return ivec2(nibbles & LOW | (high & PAIR) << 4, nibbles >> 4 & LOW | (high >> 4 & PAIR) << 4);
}

// quantsOf are elements 4k… and 16+4k… of a quantised unit as signed bytes.
ivec2 quantsOf(Weights w, uint unit, uint k) {
	if (BITS == 8)
		return ivec2(weightWords[8 * unit + k], weightWords[8 * unit + 4 + k]);
	uint high = BITS == 6 ? weightWords[w.a + 2 * unit + (k & 1)] : BITS == 5 ? weightWords[w.a + unit] : 0;
	return bytesOf(weightWords[4 * unit + k], high, k);
}

// unitQuants are all elements of a quantised unit, in the longest loads there are.
void unitQuants(Weights w, uint unit, out int q[8]) {
	if (BITS == 8) {
		ivec4 low = ivec4(weightQuads[2 * unit]), high = ivec4(weightQuads[2 * unit + 1]);
		q = int[8](low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
		return;
	}
	uvec4 nibbles = weightQuads[unit];
	uvec2 high = BITS == 6 ? weightPairs[w.a / 2 + unit] : uvec2(BITS == 5 ? weightWords[w.a + unit] : 0);
	[[unroll]] for (uint k = 0; k < 4; k++) {
		ivec2 both = bytesOf(nibbles[k], high[k & 1], k);
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

// A row has a slot for every eight elements: column(slot, i) for i in 0…7. Slots of float types hold consecutive elements,
// those of quantised types the elements of one word of four.
uint column(uint slot, uint i) {
	return QUANTISED ? slot / 4 * 32 + slot % 4 * 4 + i / 4 * 16 + i % 4 : 8 * slot + i;
}

uint slots(Weights w) { return w.units * (UNIT / 8); }

// slotValues are a slot's eight elements of a quantised type, for the quants and the scale that it was loaded as.
void slotValues(uint slot, ivec2 q, Scale s, out float f[8]) {
	[[unroll]] for (uint i = 0; i < 8; i++) {
		precise float v = float(bitfieldExtract(q[i / 4], int(8 * (i % 4)), 8) - OFFSET);
		if (MINIMA > 0) {
			precise float product = s.d * float(s.s0) * v;
			v = product - s.m * float(s.s1);
		} else if (SCALES == HALF_BLOCKS) {
			v = s.d * float(i < 4 ? s.s0 : s.s1) * v;
		} else {
			v = s.d * v;
		}
		f[i] = v;
	}
}

// decode writes the eight elements of a row's slot, with the bytes of quant.Decode.
void decode(Weights w, uint row, uint slot, out float f[8]) {
	if (QUANTISED) {
		uint unit = row * w.units + slot / 4;
		slotValues(slot, quantsOf(w, unit, slot % 4), scaleOf(w, unit), f);
	} else {
		floatsOf(row * slots(w) + slot, f);
	}
}
