#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

// Weights of hyper-connections, made of products: package ref's ConnectionWeights. An invocation has a token.

layout(constant_id = 2) const uint STREAMS = 4;
layout(constant_id = 3) const uint COLS = 24; // of w

layout(set = 0, binding = 0, std430) buffer W { float w[]; };
layout(set = 0, binding = 1, std430) readonly buffer Scale { float scale[]; };
layout(set = 0, binding = 2, std430) readonly buffer Base { float base[]; };
layout(push_constant) uniform Push {
	uint n; // tokens
	float eps, written, least;
	uint rounds;
} push;

const uint MIXES = STREAMS * STREAMS;

float affine(uint at, uint i, uint part) {
	precise float v = fma(w[at + i], scale[part], base[i]);
	return v;
}

void main() {
	for (uint t = first(); t < push.n; t += stride()) {
		uint at = t * COLS;
		float mix[MIXES];
		if (COLS > 2 * STREAMS) {
			[[unroll]] for (uint i = 0; i < MIXES; i++)
				mix[i] = affine(at, 2 * STREAMS + i, 2);
		}
		[[unroll]] for (uint i = 0; i < STREAMS; i++) {
			w[at + i] = sigmoid(affine(at, i, 0)) + push.eps;
			if (COLS > STREAMS)
				w[at + STREAMS + i] = push.written * sigmoid(affine(at, STREAMS + i, 1)) + push.least;
		}
		if (COLS <= 2 * STREAMS)
			continue;
		[[unroll]] for (uint from = 0; from < STREAMS; from++) {
			float top = mix[from * STREAMS], sum = 0;
			[[unroll]] for (uint i = 1; i < STREAMS; i++)
				top = max(top, mix[from * STREAMS + i]);
			[[unroll]] for (uint i = 0; i < STREAMS; i++) {
				mix[from * STREAMS + i] = exp(mix[from * STREAMS + i] - top);
				sum += mix[from * STREAMS + i];
			}
			[[unroll]] for (uint i = 0; i < STREAMS; i++)
				mix[from * STREAMS + i] = mix[from * STREAMS + i] / sum + push.eps;
		}
		[[dont_unroll]] for (uint round = 0; round < push.rounds; round++) {
			if (round > 0) {
				[[unroll]] for (uint from = 0; from < STREAMS; from++) {
					float sum = push.eps;
					[[unroll]] for (uint i = 0; i < STREAMS; i++)
						sum += mix[from * STREAMS + i];
					[[unroll]] for (uint i = 0; i < STREAMS; i++)
						mix[from * STREAMS + i] /= sum;
				}
			}
			[[unroll]] for (uint to = 0; to < STREAMS; to++) {
				float sum = push.eps;
				[[unroll]] for (uint i = 0; i < STREAMS; i++)
					sum += mix[i * STREAMS + to];
				[[unroll]] for (uint i = 0; i < STREAMS; i++)
					mix[i * STREAMS + to] /= sum;
			}
		}
		[[unroll]] for (uint i = 0; i < MIXES; i++)
			w[at + 2 * STREAMS + i] = mix[i];
	}
}
