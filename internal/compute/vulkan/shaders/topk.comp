#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x = max(0, x - mean - deviations·σ): package ref's GaussianTopK; a workgroup for each row

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(push_constant) uniform Push { uint rows, cols; float deviations; } push;

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint at = row * push.cols;
		float sum = 0.0, square = 0.0;
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) sum += x[at + i];
		float mean = groupSum(sum) / float(push.cols);
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) square = fma(x[at + i] - mean, x[at + i] - mean, square);
		float cut = mean + push.deviations * sqrt(groupSum(square) / float(push.cols));
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) x[at + i] = max(0.0, x[at + i] - cut);
	}
}
