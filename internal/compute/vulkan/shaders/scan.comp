#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A selective state space: with x, B and C in a row of x and Δ = softplus(step + bias), S = exp(Δ·a)·S + Δ·x·Bᵀ and out = S·C + d·x, position after
// position. If FINE, each row of S has a Δ and a d of its own, and each element an a. If APART, B and C are in a buffer of their own. A workgroup has ROWS rows of a head's S, each shared by LANES invocations.

layout(constant_id = 2) const uint N = 128;   // columns of S
layout(constant_id = 3) const uint EACH = 8;  // of a lane, the first ones the widest apart: neighbours read neighbours
layout(constant_id = 4) const bool STEPPED = true; // else Δ is 1
layout(constant_id = 5) const bool DIRECT = true;  // else d is 0
layout(constant_id = 6) const bool APART = false;
layout(constant_id = 7) const bool FINE = false;
const uint LANES = 16, ROWS = 16;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float out_[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 2, std430) readonly buffer BC { float bc[]; };
layout(set = 0, binding = 3, std430) readonly buffer Step { float steps[]; };
layout(set = 0, binding = 4, std430) readonly buffer A { float a[]; };
layout(set = 0, binding = 5, std430) readonly buffer D { float d[]; };
layout(set = 0, binding = 6, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 7, std430) buffer State { float state[]; };
#define RUNS 8
#include "runs.glsl"
layout(push_constant) uniform Push { uint rows, heads, dim, groups, first, size; } push;

shared float sums[ROWS * LANES];

#include "softplus.glsl"

void main() {
	uint parts = (push.dim + ROWS - 1) / ROWS, h = gl_WorkGroupID.x / parts;
	uint lane = gl_LocalInvocationID.x % LANES, own = gl_LocalInvocationID.x / LANES;
	uint p = gl_WorkGroupID.x % parts * ROWS + own;
	uint inner = push.heads * push.dim, written = 2 * push.groups * N, columns = APART ? inner : inner + written;
	uint group = h * push.groups / push.heads, steps_ = FINE ? inner : push.heads;
	uint of = FINE ? h * push.dim + min(p, push.dim - 1) : h; // what has a step
	for (uint row = gl_WorkGroupID.y; row < push.rows; row += gl_NumWorkGroups.y) {
		uint n = runs[row].x, slot = runs[row].y;
		if (n == 0)
			continue;
		uint at = (slot & ~FRESH) * push.size + push.first + (h * push.dim + p) * N;
		float s[EACH];
		for (uint i = 0; i < EACH; i++) {
			uint c = i * LANES + lane;
			s[i] = p < push.dim && c < N && (slot & FRESH) == 0 ? state[at + c] : 0.0;
		}
		for (uint t = row; t < row + n; t++) {
			uint in_ = t * columns, b = APART ? t * written + group * N : in_ + inner + group * N, c_ = b + push.groups * N;
			float step = STEPPED ? softplus(steps[t * steps_ + of] + bias[of]) : 1.0, decay = FINE ? 0.0 : exp(step * a[h]);
			float v = p < push.dim ? x[in_ + h * push.dim + p] : 0.0, added = step * v, sum = 0.0;
			for (uint i = 0; i < EACH; i++) {
				uint c = i * LANES + lane;
				if (c >= N)
					break;
				if (FINE)
					decay = exp(step * a[of * N + c]);
				s[i] = fma(decay, s[i], added * (APART ? bc[b + c] : x[b + c]));
				sum = fma(s[i], APART ? bc[c_ + c] : x[c_ + c], sum);
			}
			sums[gl_LocalInvocationID.x] = sum;
			barrier();
			if (lane == 0 && p < push.dim) {
				float all = DIRECT ? d[of] * v : 0.0;
				for (uint i = 0; i < LANES; i++) all += sums[own * LANES + i];
				out_[t * inner + h * push.dim + p] = all;
			}
			barrier();
		}
		for (uint i = 0; i < EACH; i++) {
			uint c = i * LANES + lane;
			if (p < push.dim && c < N)
				state[at + c] = s[i];
		}
	}
}
