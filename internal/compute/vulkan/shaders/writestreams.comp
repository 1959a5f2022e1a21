#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x_c = w[C+c]·y + Σ_s w[2C + C·s + c]·x_s, of a token's C streams, or x_c + w[C+c]·y: package ref's WriteStreams

layout(constant_id = 2) const uint STREAMS = 4;
layout(constant_id = 3) const bool MIXES = false;

layout(set = 0, binding = 0, std430) buffer X { float x[]; };          // [tokens, STREAMS, cols]
layout(set = 0, binding = 1, std430) readonly buffer Y { float y[]; }; // [tokens, cols]
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; }; // [tokens, weights]
layout(push_constant) uniform Push { uint n, cols, weights; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		uint t = i / push.cols, at = t * STREAMS * push.cols + i % push.cols, from = t * push.weights;
		float old[STREAMS];
		[[unroll]] for (uint c = 0; c < STREAMS; c++)
			old[c] = x[at + c * push.cols];
		[[unroll]] for (uint c = 0; c < STREAMS; c++) {
			precise float sum = MIXES ? w[from + STREAMS + c] * y[i] : fma(w[from + STREAMS + c], y[i], old[c]);
			if (MIXES) {
				[[unroll]] for (uint s = 0; s < STREAMS; s++)
					sum = fma(w[from + 2 * STREAMS + STREAMS * s + c], old[s], sum);
			}
			x[at + c * push.cols] = sum;
		}
	}
}
