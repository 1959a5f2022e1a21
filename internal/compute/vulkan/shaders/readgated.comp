#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

// result = Σ_c x_c·σ(gate_c) / STREAMS, of a token's streams x_c: package ref's ReadGated

layout(constant_id = 2) const uint STREAMS = 4;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; };  // [tokens, cols]
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };          // [tokens, STREAMS, cols]
layout(set = 0, binding = 2, std430) readonly buffer Gate { float gate[]; };    // [tokens, STREAMS, cols]
layout(push_constant) uniform Push { uint n, cols; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		uint at = i / push.cols * STREAMS * push.cols + i % push.cols;
		float sum = 0.0;
		[[unroll]] for (uint c = 0; c < STREAMS; c++)
			sum = fma(x[at + c * push.cols], sigmoid(gate[at + c * push.cols]), sum);
		result[i] = sum / float(STREAMS);
	}
}
