#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

// result_c = σ(±√max(|s|, 1e-6))·value, s = key_c·query_c/√cols with its sign: package ref's MatchStreams; a workgroup for each stream of a token

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; };  // [tokens, streams, cols]
layout(set = 0, binding = 1, std430) readonly buffer Key { float key[]; };      // likewise
layout(set = 0, binding = 2, std430) readonly buffer Query { float query[]; };  // likewise
layout(set = 0, binding = 3, std430) readonly buffer Value { float value[]; };  // [tokens, cols]
layout(push_constant) uniform Push { uint rows, cols, streams; } push;

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint at = row * push.cols, from = row / push.streams * push.cols;
		float sum = 0.0;
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) sum = fma(key[at + i], query[at + i], sum);
		float s = groupSum(sum) / sqrt(float(push.cols)), by = sigmoid(sign(s) * sqrt(max(abs(s), 1e-6)));
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) result[at + i] = by * value[from + i];
	}
}
