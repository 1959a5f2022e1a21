#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// The rows of a table that belong to each token's last ones: package ref's EmbedNGrams, compute.NGrams. A row of dst is one head's of a token.

layout(constant_id = 3) const uint TOKENS = 3;

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; }; // [tokens, heads, cols]
#define WEIGHTS 1
#include "weights.glsl"
layout(set = 0, binding = 2, std430) readonly buffer Recent { float recent[]; }; // [tokens, TOKENS]
// Factors [TOKENS] with the lower half first, then the heads' first rows, then their numbers of rows.
layout(set = 0, binding = 3, std430) readonly buffer Grams { uint grams[]; };
layout(push_constant) uniform Push {
	uint rows, cols;   // rows: tokens times heads
	uint begin, count; // rows of the table that are in this binding
	uint all, heads;   // of all lengths, of a length
	uint end;
	uint units, a, b, c;
} push;

// remainder is m mod n, of which m has the higher half first, n < 2^31.
uint remainder(uvec2 m, uint n) {
	uint r = m.x % n;
	for (int bit = 31; bit >= 0; bit--)
		r = (r << 1 | m.y >> bit & 1) % n;
	return r;
}

uint rowOf(uint token, uint head) {
	uvec2 mixed = uvec2(0);
	bool ended = false;
	for (uint s = 0; s < 2 + head / push.heads; s++) {
		uint n = uint(recent[token * TOKENS + s]), t = s == 0 || !ended && n > 0 ? max(n, 1) - 1 : push.end;
		ended = s > 0 && (ended || t == push.end);
		uint low = grams[2 * s], high = grams[2 * s + 1], carried, product;
		umulExtended(t, low, carried, product);
		mixed ^= uvec2(carried + t * high, product);
	}
	uint at = 2 * TOKENS + head;
	return grams[at] + remainder(mixed, grams[at + push.all]);
}

void main() {
	Weights w = Weights(push.units, push.a, push.b, push.c);
	uint perRow = slots(w);
	for (uint i = first(); i < push.rows * perRow; i += stride()) {
		uint r = i / perRow, slot = i % perRow, row = rowOf(r / push.all, r % push.all) - push.begin;
		if (row >= push.count) continue;
		float f[8];
		decode(w, row, slot, f);
		[[unroll]] for (uint k = 0; k < 8; k++) {
			uint col = column(slot, k);
			if (col < push.cols) dst[r * push.cols + col] = f[k];
		}
	}
}
