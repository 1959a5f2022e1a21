// Products of weight rows and activations. An includer defines WEIGHTS and ACTS, their bindings, and POSITIVE: whether activations that
// are floats are max(x, 0).
//
// Order of a sum, in every shader: unit u of a row belongs to lane u mod LANES. A lane adds its units in order, element by
// element for floats and an exact integer sum at a time for quantised types, and the lanes are added in order.

#include "weights.glsl"
#include "dot.glsl"

const uint LANES = 32;

// Unit is one unit of weights, as floats or as bytes.
struct Unit {
	float f[16];
	int q[8];
	Scale s;
};

#include "unit.glsl"

// Act is one unit of a token's activations.
struct Act {
	float f[16];
	int q[8];
	float d;
	ivec2 sums; // Σq of both halves
};

ivec2 halfSums(uint both) { return ivec2(bitfieldExtract(int(both), 0, 16), int(both) >> 16); }

#include "acts.glsl"

// weighed is the sum of both halves of a unit, each times the integer by that belongs to it.
int weighed(ivec2 by, int low, int high) {
	return BY_HALVES ? by.x * low + by.y * high : INTEGERS ? by.x * (low + high) : low + high;
}

// scaled adds the products of a unit to sum: low and high are the sums of its halves' quants times activations' quants, d and
// sums the activations' scale and sums.
float scaled(Scale s, float d, ivec2 sums, int low, int high, float sum) {
	precise float r = sum;
	if (SCALES == SMALL_FLOATS) {
		precise float second = s.m * float(high);
		precise float both = fma(s.d, float(low), second);
		return fma(both, d, r);
	}
	precise float scale = s.d * d;
	if (!MINIMA) {
		low -= OFFSET * sums.x;
		high -= OFFSET * sums.y;
	}
	r = fma(scale, float(weighed(s.s, low, high)), r);
	if (MINIMA) {
		precise float offset = s.m * d;
		r = fma(-offset, float(weighed(s.least, sums.x, sums.y)), r);
	}
	return r;
}

// accumulate adds the product of a unit to sum.
float accumulate(Unit w, Act a, float sum) {
	if (QUANTISED) {
		int low = 0, high = 0;
		[[unroll]] for (uint i = 0; i < 4; i++) {
			low += dot4(w.q[i], a.q[i]);
			high += dot4(w.q[i + 4], a.q[i + 4]);
		}
		return scaled(w.s, a.d, a.sums, low, high, sum);
	}
	precise float r = sum;
	[[unroll]] for (uint i = 0; i < UNIT; i++)
		r = fma(w.f[i], a.f[i], r);
	return r;
}
