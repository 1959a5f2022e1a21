#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// RWKV-7's time mixing, position after position: S = S·diag(w) − (S·κ)·(κ·a)ᵀ + v·lᵀ, y = S·r, and out is y's norm over the head, scaled, and
// v·Σ(r·l·bonus). A workgroup has a head's S, each of whose rows LANES invocations share.

layout(constant_id = 2) const uint N = 64;    // rows and columns of S
layout(constant_id = 3) const uint LANES = 4; // of a row
layout(constant_id = 4) const uint EACH = 16; // columns of a lane, the first ones the widest apart: neighbours read neighbours

layout(set = 0, binding = 0, std430) writeonly buffer Out { float out_[]; };
layout(set = 0, binding = 1, std430) readonly buffer R { float r[]; };
layout(set = 0, binding = 2, std430) readonly buffer K { float k[]; };
layout(set = 0, binding = 3, std430) readonly buffer V { float v[]; };
layout(set = 0, binding = 4, std430) readonly buffer W { float w[]; };
layout(set = 0, binding = 5, std430) readonly buffer A { float a[]; };
layout(set = 0, binding = 6, std430) readonly buffer KeyNorm { float keyNorm[]; };
layout(set = 0, binding = 7, std430) readonly buffer KeyRate { float keyRate[]; };
layout(set = 0, binding = 8, std430) readonly buffer Bonus { float bonus[]; };
layout(set = 0, binding = 9, std430) readonly buffer Scale { float scales[]; };
layout(set = 0, binding = 10, std430) buffer State { float state[]; };
#define RUNS 11
#include "runs.glsl"
layout(push_constant) uniform Push { uint rows, heads, first, size; float epsilon; } push;

shared float sums[256];
shared float read_[N], decays[N], units[N], erased[N], keys[N];

float logistic(float x) { return 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0))); }

// laneSum is the sum of x over the lanes of a row, in each of them; all invocations call it.
float laneSum(float x) {
	uint own = gl_LocalInvocationID.x / LANES * LANES;
	sums[gl_LocalInvocationID.x] = x;
	barrier();
	float all = 0.0;
	for (uint i = 0; i < LANES; i++) all += sums[own + i];
	barrier();
	return all;
}

void main() {
	uint id = gl_LocalInvocationID.x, lane = id % LANES, own = id / LANES, h = gl_WorkGroupID.x, inner = push.heads * N;
	bool has = own < N; // a row
	for (uint row = gl_WorkGroupID.y; row < push.rows; row += gl_NumWorkGroups.y) {
		uint n = runs[row].x, slot = runs[row].y;
		if (n == 0)
			continue;
		uint at = (slot & ~FRESH) * push.size + push.first + (h * N + own) * N;
		float s[EACH];
		for (uint i = 0; i < EACH; i++) {
			uint c = i * LANES + lane;
			s[i] = has && c < N && (slot & FRESH) == 0 ? state[at + c] : 0.0;
		}
		for (uint t = row; t < row + n; t++) {
			uint in_ = t * inner + h * N;
			float unit = 0.0, rate = 0.0, bonus_ = 0.0;
			if (id < N) {
				uint c = h * N + id;
				float key = k[in_ + id];
				rate = logistic(a[in_ + id]);
				unit = key * keyNorm[c];
				key *= 1.0 + (rate - 1.0) * keyRate[c];
				keys[id] = key;
				read_[id] = r[in_ + id];
				bonus_ = read_[id] * key * bonus[c];
				decays[id] = exp(-0.60653066 * logistic(w[in_ + id]));
			}
			float length_ = max(sqrt(groupSum(unit * unit)), 1e-12), own_ = groupSum(bonus_);
			if (id < N) {
				units[id] = unit / length_;
				erased[id] = unit / length_ * rate;
			}
			barrier();
			float sum = 0.0;
			for (uint i = 0; i < EACH; i++) {
				uint c = i * LANES + lane;
				if (c < N)
					sum = fma(s[i], units[c], sum);
			}
			float known = laneSum(sum), value = has ? v[in_ + own] : 0.0;
			sum = 0.0;
			for (uint i = 0; i < EACH; i++) {
				uint c = i * LANES + lane;
				if (c >= N)
					break;
				s[i] = fma(value, keys[c], fma(s[i], decays[c], -known * erased[c]));
				sum = fma(s[i], read_[c], sum);
			}
			float y = laneSum(sum);
			bool first_ = has && lane == 0;
			float mean = groupSum(first_ ? y : 0.0) / float(N);
			float variance = groupSum(first_ ? (y - mean) * (y - mean) : 0.0) / float(N);
			if (first_) {
				uint c = h * N + own;
				out_[in_ + own] = fma(value, own_, fma((y - mean) * inversesqrt(variance + push.epsilon), scales[c], scales[inner + c]));
			}
			barrier();
		}
		for (uint i = 0; i < EACH; i++) {
			uint c = i * LANES + lane;
			if (has && c < N)
				state[at + c] = s[i];
		}
	}
}
