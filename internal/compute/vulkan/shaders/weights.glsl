// Weights as matrix.go lays them out. An includer defines WEIGHTS, their binding.
//
// A row is cut into units: 8 elements of F32, 16 of F16 and BF16, 32 of quantised types. A float unit is 32 bytes. The quants
// of a quantised unit are words, by their bits:
//
//	2, 3         two words; word h has in bit pair f of its bytes the lowest two bits of elements 4(2f+h)…
//	4, 5, 6      four words; word k has the lowest four bits of elements 4k… in its low nibbles and of 16+4k… in its high ones
//	8            eight words; word k is elements 4k…
//
// What else there is lies apart, behind the quants of all rows, where the regions of Weights say, one after the other:
//
//	3, 5 bits      a word for each unit, which has in bit v of its bytes the highest bits of elements 4v…
//	6 bits         two words for each unit, with the highest two bits where 2 and 3 bits have their lowest
//
//	BLOCK_SCALE    a half for each unit
//	BLOCK_MIN      a half for each unit and another, its minimum
//	SIX_BITS       for each superblock of eight units the sixteen bytes that begin it in the file
//	HALF_BLOCKS    two signed bytes for each unit, one for each half; then a half for each superblock
//	BYTE_BLOCKS    a signed byte for each unit; then a half for each superblock
//	NIBBLE_MINIMA  two bytes for each unit, one for each half, with the scale in the low nibble and the minimum in the high one; then for each
//	               superblock two halves, the units of both
//	EXPONENTS      a byte for each unit
//	SUPER_SCALE    a half for each superblock
//	SMALL_FLOATS   two bytes for each unit, one for each half: half a number of E4M3; then for each row a float, 2^SCALE_SHIFT times their factor

#include "types.glsl"

const bool QUANTISED = BITS > 0;
const bool PAIRS = BITS == 2 || BITS == 3;    // quants have their lowest bits in pairs
const bool HIGH_BIT = BITS == 3 || BITS == 5; // they have one bit more in the first region
const bool HIGH_BITS = HIGH_BIT || BITS == 6; // they have more there
const bool BY_HALVES = SCALES == HALF_BLOCKS || SCALES == NIBBLE_MINIMA;       // integers of scale belong to halves of units
const bool INTEGERS = BY_HALVES || SCALES == SIX_BITS || SCALES == BYTE_BLOCKS; // there are any
const uint UNIT = QUANTISED ? 32 : TYPE == F32 ? 8 : 16;

// Weights is where the parts of a matrix lie in its binding.
struct Weights {
	uint units;   // of a row
	uint a, b, c; // regions, in words
};

const uint LOW = 0x0f0f0f0fu, PAIR = 0x03030303u, ONE = 0x01010101u;

// powerOf is 2^(e-127), and NaN where e is 255.
float powerOf(uint e) { return uintBitsToFloat(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : e << 23); }

// SCALE_SHIFT brings a byte of SMALL_FLOATS to its place in a half, which then lacks as many powers of two.
const uint SCALE_SHIFT = 7;

// Scale turns the integer sums of a unit into numbers. Of types with minima element q is d·s·q - m·least, of others d·s·(q - OFFSET); x
// belongs to the unit's first half, y to its second. Of SMALL_FLOATS it is d·q in the first half and m·q in the second.
struct Scale {
	float d, m;
	ivec2 s, least;
};

// halfOf and byteOf are element i of an array of halves, of signed bytes, from the word that has it.
float halfOf(uint word, uint i) { return unpackHalf2x16(word >> 16 * (i & 1)).x; }
int byteOf(uint word, uint i) { return bitfieldExtract(int(word), int(8 * (i & 3)), 8); }

// scaleFrom is the scale of a unit from what memory has.
Scale scaleFrom(uvec4 raw, uint unit) {
	Scale s = Scale(0, 0, ivec2(1), ivec2(1));
	if (SCALES == BLOCK_SCALE) {
		s.d = halfOf(raw.x, unit);
	} else if (SCALES == BLOCK_MIN) {
		vec2 both = unpackHalf2x16(raw.x);
		s.d = both.x;
		s.m = -both.y;
	} else if (SCALES == SIX_BITS) {
		uint at = 8 * (unit & 3), low = raw.y >> at, mid = raw.z >> at, high = raw.w >> at;
		vec2 d = unpackHalf2x16(raw.x);
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
		int both = int(raw.x >> 16 * (unit & 1));
		s.d = halfOf(raw.y, unit / 8);
		s.s = ivec2(bitfieldExtract(both, 0, 8), bitfieldExtract(both, 8, 8));
	} else if (SCALES == BYTE_BLOCKS) {
		s.d = halfOf(raw.y, unit / 8);
		s.s = ivec2(byteOf(raw.x, unit));
	} else if (SCALES == NIBBLE_MINIMA) {
		uint both = raw.x >> 16 * (unit & 1);
		vec2 d = unpackHalf2x16(raw.y);
		s.d = d.x;
		s.m = d.y;
		s.s = ivec2(both & 15, both >> 8 & 15);
		s.least = ivec2(both >> 4 & 15, both >> 12 & 15);
	} else if (SCALES == EXPONENTS) {
		s.d = powerOf(byteOf(raw.x, unit) & 255);
	} else if (SCALES == SUPER_SCALE) {
		s.d = halfOf(raw.x, unit / 8);
	} else if (SCALES == SMALL_FLOATS) {
		uint both = raw.x >> 16 * (unit & 1);
		vec2 d = unpackHalf2x16((both & 255 | (both & 0xff00u) << 8) << SCALE_SHIFT) * uintBitsToFloat(raw.y);
		s.d = d.x;
		s.m = d.y;
	}
	if (HALVINGS > 0)
		s.d *= powerOf(127 - HALVINGS);
	return s;
}

// Codes become values by choices between all of the codebook's values, for four bytes at once: constants and masks, and nothing is loaded.
uint choice(uint a, uint b, uint mask) { return a ^ (a ^ b) & mask; }

// valueBytes are four bytes of value i of a word of them.
uint valueBytes(uint values, uint i) { return (values >> 8 * i & 255) * ONE; }

// choiceOf4 is by the lowest two bits, whose masks are given.
uint choiceOf4(uint values, uint mask0, uint mask1) {
	return choice(choice(valueBytes(values, 0), valueBytes(values, 1), mask0), choice(valueBytes(values, 2), valueBytes(values, 3), mask0), mask1);
}

// valuesOf are the values of four bytes of codes; without a codebook they are their own.
int valuesOf(uint codes) {
	if (CODEBOOK == 0)
		return int(codes);
	uint mask0 = (codes & ONE) * 255, mask1 = (codes >> 1 & ONE) * 255, mask2 = (codes >> 2 & ONE) * 255;
	uint low = choice(choiceOf4(VALUES_0, mask0, mask1), choiceOf4(VALUES_1, mask0, mask1), mask2);
	if (BITS == 3)
		return int(low);
	uint high = choice(choiceOf4(VALUES_2, mask0, mask1), choiceOf4(VALUES_3, mask0, mask1), mask2);
	return int(choice(low, high, (codes >> 3 & ONE) * 255));
}

// pairsOf are the bits of elements 4k… and 16+4k… of a unit as bytes, from the one of its two words of pairs that has them.
uvec2 pairsOf(uint pairs, uint k) {
	pairs >>= 2 * (k >> 1);
	return uvec2(pairs & PAIR, pairs >> 4 & PAIR);
}

// bytesOf are elements 4k… and 16+4k… of a unit as signed bytes, from their word of low bits and their word of high bits, if any.
ivec2 bytesOf(uint low, uint high, uint k) {
	uvec2 q = PAIRS ? pairsOf(low, k) : uvec2(low & LOW, low >> 4 & LOW);
	if (HIGH_BIT)
		q |= uvec2(high >> k & ONE, high >> (k + 4) & ONE) << (PAIRS ? 2 : 4);
	else if (HIGH_BITS)
		q |= pairsOf(high, k) << 4;
	return ivec2(valuesOf(q.x), valuesOf(q.y));
}

#include "loads.glsl"

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
		if (MINIMA) {
			precise float product = s.d * float(s.s[i / 4]) * v;
			v = product - s.m * float(s.least[i / 4]);
		} else if (SCALES == SMALL_FLOATS) {
			v = (i / 4 == 0 ? s.d : s.m) * v;
		} else {
			v = s.d * float(s.s[i / 4]) * v;
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
