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

// begin is what the sums of a unit's halves begin with: a quant stands for q - OFFSET where there are no minima.
ivec2 begin(ivec2 sums) { return MINIMA || SCALES == SMALL_FLOATS ? ivec2(0) : -OFFSET * sums; }

// added adds the products of a unit to sum: low and high are begin and the sums of its halves' quants times activations' quants, d
// and sums the activations' scale and sums. Where halves have no scales of their own high may be in low.
float added(Scale s, float d, ivec2 sums, int low, int high, float sum) {
	precise float r = sum;
	if (SCALES == SMALL_FLOATS) {
		precise float second = s.m * float(high);
		precise float both = fma(s.d, float(low), second);
		return fma(both, d, r);
	}
	precise float scale = s.d * d;
	r = fma(scale, float(weighed(s.s, low, high)), r);
	if (MINIMA) {
		precise float offset = s.m * d;
		r = fma(-offset, float(weighed(s.least, sums.x, sums.y)), r);
	}
	return r;
}

// scaled is added for sums of quants that began with zero.
float scaled(Scale s, float d, ivec2 sums, int low, int high, float sum) {
	ivec2 first = begin(sums);
	return added(s, d, sums, low + first.x, high + first.y, sum);
}

// accumulate adds the product of a unit to sum.
float accumulate(Unit w, Act a, float sum) {
	if (QUANTISED) {
		ivec2 both = begin(a.sums);
		const bool halves = BY_HALVES || SCALES == SMALL_FLOATS;
		int low = halves ? both.x : both.x + both.y, high = halves ? both.y : 0;
		[[unroll]] for (uint i = 0; i < 4; i++)
			low += dot4(w.q[i], a.q[i]);
		[[unroll]] for (uint i = 4; i < 8; i++)
			if (halves)
				high += dot4(w.q[i], a.q[i]);
			else
				low += dot4(w.q[i], a.q[i]);
		return added(w.s, a.d, a.sums, low, high, sum);
	}
	precise float r = sum;
	[[unroll]] for (uint i = 0; i < UNIT; i++)
		r = fma(w.f[i], a.f[i], r);
	return r;
}
