// The parts of a softmax that attention.comp or attention_tile.comp left, put together, and with PACK the same in eight bits besides: a workgroup for
// every token and head.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PACKED 3
#include "packing.glsl"
#define SPLIT POSITIONS
#include "attention.glsl"

layout(constant_id = 2) const bool PACK = false; // DIM is a multiple of 32

layout(set = 0, binding = 0, std430) readonly buffer Splits { float splits[]; }; // [n, heads, maxSplits, DIM + 2]
layout(set = 0, binding = 1, std430) writeonly buffer Out { float result[]; };

layout(constant_id = 3) const bool SINKS = false;
layout(constant_id = 4) const bool LATER = false;
layout(constant_id = 5) const uint DIM = 128; // of a value
layout(constant_id = 6) const uint POSITIONS = 256; // of a part
layout(constant_id = 7) const bool PICKED = false; // tokens see what their lists name

layout(set = 0, binding = 4, std430) readonly buffer Sinks { float sinks[]; }; // [heads]
layout(set = 0, binding = 5, std430) readonly buffer Lists { float lists[]; };

layout(push_constant) uniform Push {
	uint heads;
	uint maxSplits;
	uint room, outs;
	uint scales;
	uint window; // positions that a token sees; 0: all
	uint first_; // token
	uint groups, list, block; // with PICKED: as in attention.comp
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "seen.glsl"
#include "picked.glsl"

shared float values[DIM]; // of the head

void main() {
	uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y, token = push.first_ + row;
	uint begin = 0, count = 0, size = DIM + 2;
	if (padding(token)) {
	} else if (PICKED) {
		uint at = listOf(token, head * push.groups / push.heads, push.groups, push.list);
		count = uint(pickedLen(at, push.list, push.block, int(position(token))) - 1) / SPLIT + 1;
	} else {
		begin = uint(firstSeen(token, push.window, LATER)) / SPLIT;
		count = uint(lastSeen(token, push.window, LATER)) / SPLIT + 1;
	}
	uint first = (row * push.heads + head) * push.maxSplits * size;
	for (uint d = gl_LocalInvocationID.x; d < DIM; d += gl_WorkGroupSize.x) {
		Part total = Part(0, 1); // of padding, which has no parts
		float value = 0;
		for (uint s = begin; s < count; s++) {
			uint at = first + s * size;
			vec2 by = merge(total, Part(splits[at], splits[at + 1]), s == begin);
			value = merged(value, splits[at + 2 + d], by);
		}
		precise float quotient = value / total.sum;
		if (SINKS) {
			precise float product = value * withSink(total, sinks[head]);
			quotient = product;
		}
		result[(token * push.heads + head) * DIM + d] = quotient;
		values[d] = quotient;
	}
	if (!PACK)
		return;
	barrier();
	for (uint from = 0; from < DIM; from += PART * gl_WorkGroupSize.x) {
		uint d = from + PART * gl_LocalInvocationID.x;
		vec4 v = vec4(0);
		if (d < DIM)
			v = vec4(values[d], values[d + 1], values[d + 2], values[d + 3]);
		pack(((token * push.heads + head) * DIM + d) / PART, d < DIM, v, push.scales);
	}
}
