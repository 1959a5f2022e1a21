#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Turns pair i of every head by the cosine and sine of its token.

layout(constant_id = 2) const uint STYLE = 0; // compute.RopeStyle
const uint INTERLEAVED = 0;

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Turns { vec2 turns[]; }; // [token][pair]
layout(push_constant) uniform Push { uint n, cols, headDim, pairs, begin; } push;

void main() {
	uint perRow = push.cols / push.headDim * push.pairs;
	for (uint i = first(); i < push.n; i += stride()) {
		uint t = i / perRow, head = i % perRow / push.pairs, pair = i % push.pairs;
		uint at = t * push.cols + head * push.headDim + push.begin;
		uint a = at + (STYLE == INTERLEAVED ? 2 * pair : pair), b = a + (STYLE == INTERLEAVED ? 1 : push.pairs);
		vec2 turn = turns[t * push.pairs + pair];
		float xa = x[a], xb = x[b];
		x[a] = xa * turn.x - xb * turn.y;
		x[b] = xa * turn.y + xb * turn.x;
	}
}
