#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// out[t, c] = silu(bias[c] + Σ_k w[k, c]·x[t − (WIDTH−1) + k, c]) over the positions of a sequence. The state holds the last WIDTH−1 positions before
// the step. Each channel of a run has an invocation. If GATED, a row of x holds, one behind the other, gates of inputs, gates of results, and inputs;
// there is no SiLU then, nor if PLAIN. If PEEK, the state stays as it is.

layout(constant_id = 2) const uint WIDTH = 4;
layout(constant_id = 3) const bool BIASED = false;
layout(constant_id = 4) const bool GATED = false;
layout(constant_id = 5) const bool PLAIN = false;
layout(constant_id = 6) const bool PEEK = false;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float out_[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) buffer State { float state[]; };
#define RUNS 5
#include "runs.glsl"
layout(push_constant) uniform Push { uint rows, channels, size, first; } push;

void main() {
	uint c = gl_GlobalInvocationID.x;
	for (uint row = gl_WorkGroupID.y; row < push.rows; row += gl_NumWorkGroups.y) {
		uint n = runs[row].x, slot = runs[row].y;
		if (n == 0 || c >= push.channels)
			continue;
		uint at = (slot & ~FRESH) * push.size + push.first + c;
		float window[WIDTH], weights[WIDTH];
		for (uint k = 0; k < WIDTH; k++) weights[k] = w[k * push.channels + c];
		for (uint k = 0; k + 1 < WIDTH; k++) window[k + 1] = (slot & FRESH) != 0 ? 0.0 : state[at + k * push.channels];
		float first = BIASED ? bias[c] : 0.0;
		for (uint t = row; t < row + n; t++) {
			for (uint k = 0; k + 1 < WIDTH; k++) window[k] = window[k + 1];
			uint in_ = GATED ? 3 * t * push.channels + c : t * push.channels + c;
			window[WIDTH - 1] = GATED ? x[in_] * x[in_ + 2 * push.channels] : x[in_];
			float sum = first;
			for (uint k = 0; k < WIDTH; k++) sum = fma(weights[k], window[k], sum);
			out_[t * push.channels + c] = GATED ? sum * x[in_ + push.channels] : PLAIN ? sum : sum / (1.0 + exp(-sum));
		}
		if (!PEEK)
			for (uint k = 0; k + 1 < WIDTH; k++) state[at + k * push.channels] = window[k + 1];
	}
}
