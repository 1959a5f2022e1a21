#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "half.glsl"
#include "kv.glsl"
#include "mean.glsl"

// What attention does with its heads before it attends, in one dispatch: up to three tensors [tokens, heads, elements], each with up to four
// operations on every head, which is replaced; two of them are stored in the cache then. A workgroup has a head of a token.

layout(constant_id = 2) const uint MOST = 128; // elements of a head
layout(constant_id = 3) const uint STEPS_0 = 0; // four bits for each operation on the first tensor's heads, the first in the lowest
layout(constant_id = 4) const uint STEPS_1 = 0;
layout(constant_id = 5) const uint STEPS_2 = 0;
layout(constant_id = 6) const uint STYLE = 0; // compute.RopeStyle
layout(constant_id = 7) const uint KEYS = KV_F16;
layout(constant_id = 8) const uint VALUES = KV_F16;
layout(constant_id = 9) const uint KEYS_IN = 3;  // the tensor whose heads are stored as keys
layout(constant_id = 10) const uint VALUES_IN = 3; // and as values
const uint RMS = 1, LAYER = 2, MULTIPLY = 3, TURN = 4, CLAMP = 5; // heads.go has them, too
const uint INTERLEAVED = 0;

layout(set = 0, binding = 0, std430) buffer X0 { float x0[]; };
layout(set = 0, binding = 1, std430) buffer X1 { float x1[]; };
layout(set = 0, binding = 2, std430) buffer X2 { float x2[]; };
layout(set = 0, binding = 3, std430) readonly buffer W0 { float w0[]; }; // of norms [elements]
layout(set = 0, binding = 4, std430) readonly buffer W1 { float w1[]; };
layout(set = 0, binding = 5, std430) readonly buffer W2 { float w2[]; };
layout(set = 0, binding = 6, std430) readonly buffer By0 { float by0[]; }; // of products [heads, elements]
layout(set = 0, binding = 7, std430) readonly buffer By1 { float by1[]; };
layout(set = 0, binding = 8, std430) readonly buffer Turns { vec2 turns[]; }; // [token][pair]

layout(push_constant) uniform Push {
	uint heads0, heads1, heads2;
	uint elements0, elements1, elements2;
	float eps0, eps1, eps2;
	float limit; // of CLAMP
	uint pairs, begin; // of TURN: those of a head, and their first element
	uint room, outs;
	uint near; // 1: the layer is one of those with windows; else 0
} push;
#define PARAMS 11
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

shared float head_[MOST]; // the workgroup's

float element(bool key, uint i) { return head_[i]; }

#define KEY_CACHE 9
#define VALUE_CACHE 10
#include "store.glsl"

float elementOf(uint t, uint at) { return t == 0 ? x0[at] : t == 1 ? x1[at] : x2[at]; }
void replace(uint t, uint at, float v) {
	if (t == 0)
		x0[at] = v;
	else if (t == 1)
		x1[at] = v;
	else
		x2[at] = v;
}
float weightOf(uint t, uint i) { return t == 0 ? w0[i] : t == 1 ? w1[i] : w2[i]; }

void main() {
	uint id = gl_LocalInvocationID.x, local = gl_WorkGroupSize.x, token_ = gl_WorkGroupID.x, head = gl_WorkGroupID.y, t = 0;
	if (head >= push.heads0) {
		head -= push.heads0;
		t = 1;
		if (head >= push.heads1) {
			head -= push.heads1;
			t = 2;
		}
	}
	uint heads = t == 0 ? push.heads0 : t == 1 ? push.heads1 : push.heads2;
	uint n = t == 0 ? push.elements0 : t == 1 ? push.elements1 : push.elements2;
	uint steps = t == 0 ? STEPS_0 : t == 1 ? STEPS_1 : STEPS_2, at = (token_ * heads + head) * n;
	bool stored = (t == KEYS_IN || t == VALUES_IN) && !padding(token_);
	uint place = 0, slot = 0; // in the cache
	if (stored) {
		slot = position(token_) % 64;
		place = page(sequence(token_), position(token_) / 64, push.near) * heads + head;
	}
	for (uint i = id; i < n; i += local)
		head_[i] = elementOf(t, at + i);
	[[dont_unroll]] for (uint left = steps; left != 0; left >>= 4) {
		uint kind = left & 15;
		if (kind == RMS || kind == LAYER) { // of elements that the invocation wrote itself, but for TURN's
			float mean = 0, sum = 0;
			if (kind == LAYER) {
				vec2 all = vec2(0);
				for (uint i = id; i < n; i += local)
					all = plus(all, vec2(head_[i], 0));
				mean = groupMean(all, n);
			}
			for (uint i = id; i < n; i += local)
				sum = fma(head_[i] - mean, head_[i] - mean, sum);
			float root = sqrt(groupSum(sum) / float(n) + (t == 0 ? push.eps0 : t == 1 ? push.eps1 : push.eps2));
			for (uint i = id; i < n; i += local) {
				precise float y = (head_[i] - mean) / root * weightOf(t, i);
				head_[i] = y;
			}
		} else if (kind == TURN) {
			barrier();
			for (uint p = id; p < push.pairs; p += local) {
				uint a = push.begin + (STYLE == INTERLEAVED ? 2 * p : p), b = a + (STYLE == INTERLEAVED ? 1 : push.pairs);
				vec2 turn = turns[token_ * push.pairs + p];
				precise float x = head_[a] * turn.x - head_[b] * turn.y, y = head_[a] * turn.y + head_[b] * turn.x;
				head_[a] = x;
				head_[b] = y;
			}
			barrier();
		} else {
			for (uint i = id; i < n; i += local)
				head_[i] = kind == CLAMP ? clamp(head_[i], -push.limit, push.limit) : head_[i] * (t == 0 ? by0[head * n + i] : by1[head * n + i]);
		}
	}
	if (steps != 0)
		for (uint i = id; i < n; i += local)
			replace(t, at + i, head_[i]);
	if (!stored)
		return;
	barrier();
	if (t == KEYS_IN)
		for (uint unit = id; unit < kvUnits(KEYS, n); unit += local)
			store(true, KEYS, n, 0, unit, place, slot);
	if (t == VALUES_IN)
		for (uint unit = id; unit < kvUnits(VALUES, n); unit += local)
			store(false, VALUES, n, 0, unit, place, slot);
}
