#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A gated delta rule: with q, k and v in a row of x, β = sigmoid(write) and a decay g, S = g·S, S += β·(v − S·k)·kᵀ and out = S·q, position after position.
// g is exp(a·softplus(step + bias)), or with a bound exp(bound·sigmoid(a·(step + bias))), and may be one for each column of S. A workgroup has ROWS rows of a head's S, each shared by LANES invocations, all of which sum up what their row has of S·k
// and S·q, and of the lengths of k and q: out follows from the sums before S changes.

layout(constant_id = 2) const uint N = 128;   // columns of S
layout(constant_id = 3) const uint EACH = 8;  // of a lane, the first ones the widest apart: neighbours read neighbours
layout(constant_id = 4) const bool TILED = false;
layout(constant_id = 5) const bool JOINED = false;
layout(constant_id = 6) const bool BY_COLUMN = false;
const uint LANES = 16, ROWS = 16;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float out_[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 2, std430) readonly buffer Write { float writes[]; };
layout(set = 0, binding = 3, std430) readonly buffer Step { float steps[]; };
layout(set = 0, binding = 4, std430) readonly buffer A { float a[]; };
layout(set = 0, binding = 5, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 6, std430) buffer State { float state[]; };
#define RUNS 7
#include "runs.glsl"
layout(push_constant) uniform Push { uint rows, heads, dim, groups, first, size; float epsilon, bound; } push;

shared vec4 sums[ROWS * LANES]; // of k·k, q·q, S·k and S·q
shared float keys[ROWS * LANES]; // of k·q
shared float decays[EACH * LANES]; // of columns

#include "softplus.glsl"

float sigmoid(float x) { return 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0))); }

float decayOf(float x, float a) { return exp(push.bound < 0.0 ? push.bound * sigmoid(a * x) : a * softplus(x)); }

void main() {
	uint parts = (push.dim + ROWS - 1) / ROWS, h = gl_WorkGroupID.x / parts;
	uint lane = gl_LocalInvocationID.x % LANES, own = gl_LocalInvocationID.x / LANES;
	uint p = gl_WorkGroupID.x % parts * ROWS + own;
	uint inner = push.heads * push.dim, columns = inner + 2 * push.groups * N, each = push.heads / push.groups;
	uint group = TILED ? h % push.groups : h / each;
	uint gates = JOINED ? 2 * push.heads : push.heads, write = JOINED ? h / each * 2 * each + h % each : h;
	uint step_ = JOINED ? write + each : h;
	for (uint row = gl_WorkGroupID.y; row < push.rows; row += gl_NumWorkGroups.y) {
		uint n = runs[row].x, slot = runs[row].y;
		if (n == 0)
			continue;
		uint at = (slot & ~FRESH) * push.size + push.first + (h * push.dim + p) * N;
		float s[EACH], k[EACH];
		for (uint i = 0; i < EACH; i++) {
			uint c = i * LANES + lane;
			s[i] = p < push.dim && c < N && (slot & FRESH) == 0 ? state[at + c] : 0.0;
		}
		for (uint t = row; t < row + n; t++) {
			uint in_ = t * columns;
			vec4 sum = vec4(0);
			float both = 0.0;
			if (BY_COLUMN) {
				for (uint c = gl_LocalInvocationID.x; c < N; c += ROWS * LANES)
					decays[c] = decayOf(steps[(t * push.heads + h) * N + c] + bias[h * N + c], a[h]);
				barrier();
			}
			for (uint i = 0; i < EACH; i++) {
				uint c = i * LANES + lane;
				k[i] = 0.0;
				if (c >= N)
					break;
				if (BY_COLUMN)
					s[i] *= decays[c];
				float q = x[in_ + group * N + c];
				k[i] = x[in_ + (push.groups + group) * N + c];
				sum.x = fma(k[i], k[i], sum.x);
				sum.y = fma(q, q, sum.y);
				sum.z = fma(s[i], k[i], sum.z);
				sum.w = fma(s[i], q, sum.w);
				both = fma(k[i], q, both);
			}
			sums[gl_LocalInvocationID.x] = sum;
			keys[gl_LocalInvocationID.x] = both;
			barrier();
			vec4 all = vec4(0);
			float kq = 0.0;
			for (uint i = 0; i < LANES; i++) {
				all += sums[own * LANES + i];
				kq += keys[own * LANES + i];
			}
			float perKey = inversesqrt(all.x + push.epsilon), perQuery = inversesqrt((all.y + push.epsilon) * float(N));
			float decay = BY_COLUMN ? 1.0 : decayOf(steps[t * gates + step_] + bias[h], a[h]);
			float beta = sigmoid(writes[t * gates + write]);
			float v = p < push.dim ? x[in_ + 2 * push.groups * N + h * push.dim + p] : 0.0;
			float added = beta * (v - decay * perKey * all.z);
			for (uint i = 0; i < EACH; i++)
				s[i] = fma(decay, s[i], added * perKey * k[i]);
			if (lane == 0 && p < push.dim)
				out_[t * inner + h * push.dim + p] = perQuery * fma(decay, all.w, added * perKey * kq);
			barrier();
		}
		for (uint i = 0; i < EACH; i++) {
			uint c = i * LANES + lane;
			if (p < push.dim && c < N)
				state[at + c] = s[i];
		}
	}
}
