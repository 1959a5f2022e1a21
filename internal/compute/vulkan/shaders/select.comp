// The blocks with the highest scores: package ref's Select. A workgroup of 256 for every token and group.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 2) const bool ENDS = false;
layout(constant_id = 3) const bool OPEN = false;

layout(set = 0, binding = 0, std430) coherent buffer Scores { float scores[]; }; // [tokens in progress, groups, stride] of positions, and then of blocks
layout(set = 0, binding = 1, std430) writeonly buffer Lists { float lists[]; }; // [tokens, groups, list]

layout(push_constant) uniform Push {
	uint first; // of the tokens in progress
	uint groups, list, stride, block, top, local;
	uint positions; // a row has scores of, before those of blocks
	uint room, outs;
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

const uint LOCAL = 256;
shared uint counts[LOCAL], aboves[LOCAL], equals[LOCAL];
shared uint digit, rest;

uint id = gl_LocalInvocationID.x;
uint base, n; // where the blocks' scores begin, and their number

// rank is a number whose order is that of blocks' scores. 0 and -0 are the same.
uint rank(uint b) {
	if (b + push.local >= n)
		return 0xffffffffu;
	float score = scores[base + b];
	uint bits = score == 0 ? 0 : floatBitsToUint(score);
	return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

void main() {
	uint token = push.first + gl_WorkGroupID.x, group = gl_WorkGroupID.y;
	if (padding(token))
		return;
	uint own = position(token), at = (token * push.groups + group) * push.list;
	n = ENDS ? (own + 1) / push.block : own / push.block + 1;
	uint open = OPEN && (own + 1) % push.block != 0 ? 1 : 0;
	if (id == 0)
		lists[at] = float(min(n, push.top) + open);
	for (uint i = min(n, push.top) + id; i < push.list - 1; i += LOCAL)
		lists[at + 1 + i] = open == 1 && i == min(n, push.top) ? float(n) : 0;
	if (n <= push.top) {
		for (uint i = id; i < n; i += LOCAL)
			lists[at + 1 + i] = float(i);
		return;
	}
	base = (gl_WorkGroupID.x * push.groups + group) * push.stride;
	if (!ENDS && push.block > 1) {
		for (uint b = id; b < n; b += LOCAL) {
			float most = scores[base + b * push.block];
			for (uint p = b * push.block + 1; p < min((b + 1) * push.block, own + 1); p++)
				most = max(most, scores[base + p]);
			scores[base + push.positions + b] = most;
		}
		base += push.positions;
		memoryBarrierBuffer();
		barrier();
	}

	// The least rank that is chosen is found eight bits at a time, by counting those that agree with it so far.
	uint least = 0, left = push.top; // left: of those that agree
	[[dont_unroll]] for (int shift = 24; shift >= 0; shift -= 8) {
		counts[id] = 0;
		barrier();
		for (uint i = id; i < n; i += LOCAL) {
			uint r = rank(i);
			if (shift == 24 || r >> (shift + 8) == least >> (shift + 8))
				atomicAdd(counts[r >> shift & 255], 1);
		}
		barrier();
		if (id == 0) {
			uint d = 255;
			for (; counts[d] < left && d > 0; d--)
				left -= counts[d];
			digit = d;
			rest = left;
		}
		barrier();
		least |= digit << shift;
		left = rest;
		barrier();
	}

	// Every invocation lists those of a stretch, behind the ones of earlier stretches.
	uint each = (n + LOCAL - 1) / LOCAL, from = min(n, id * each), end = min(n, from + each);
	uint above = 0, equal = 0;
	for (uint i = from; i < end; i++) {
		uint r = rank(i);
		above += r > least ? 1 : 0;
		equal += r == least ? 1 : 0;
	}
	aboves[id] = above;
	equals[id] = equal;
	barrier();
	above = equal = 0;
	for (uint i = 0; i < id; i++) {
		above += aboves[i];
		equal += equals[i];
	}
	equal = min(equal, left);
	uint to = at + 1 + above + equal;
	left -= equal;
	for (uint i = from; i < end; i++) {
		uint r = rank(i);
		if (r > least || r == least && left > 0) {
			left -= r == least ? 1 : 0;
			lists[to++] = float(i);
		}
	}
}
