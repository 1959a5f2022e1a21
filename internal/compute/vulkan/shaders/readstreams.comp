#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// result = Σ_c w[c]·x_c, of a token's streams x_c: package ref's ReadStreams

layout(constant_id = 2) const uint STREAMS = 4;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; }; // [tokens, cols]
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };         // [tokens, STREAMS, cols]
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; };         // [tokens, weights]
layout(push_constant) uniform Push { uint n, cols, weights; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		uint t = i / push.cols, at = t * STREAMS * push.cols + i % push.cols;
		precise float sum = w[t * push.weights] * x[at];
		[[unroll]] for (uint c = 1; c < STREAMS; c++)
			sum = fma(w[t * push.weights + c], x[at + c * push.cols], sum);
		result[i] = sum;
	}
}
