// The parts of a softmax that attention.comp left, put together: a workgroup for every token and head.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attention.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Splits { float splits[]; }; // [n, heads, maxSplits, dim + 2]
layout(set = 0, binding = 1, std430) writeonly buffer Out { float result[]; };

layout(push_constant) uniform Push {
	uint heads;
	uint dim;
	uint maxSplits;
	uint room, outs;
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

void main() {
	uint head = gl_WorkGroupID.x, token = gl_WorkGroupID.y;
	uint count = position(token) / SPLIT + 1, size = push.dim + 2;
	uint first = (token * push.heads + head) * push.maxSplits * size;
	for (uint d = gl_LocalInvocationID.x; d < push.dim; d += gl_WorkGroupSize.x) {
		Part total;
		float value = 0;
		for (uint s = 0; s < count; s++) {
			uint at = first + s * size;
			vec2 by = merge(total, Part(splits[at], splits[at + 1]), s == 0);
			value = merged(value, splits[at + 2 + d], by);
		}
		result[(token * push.heads + head) * push.dim + d] = value / total.sum;
	}
}
