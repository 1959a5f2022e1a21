#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// dst = x / √(mean(x²)+eps) · w, a workgroup for each row

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; };
layout(push_constant) uniform Push { uint rows, cols; float eps; } push;

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint at = row * push.cols;
		float sum = 0.0;
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) sum = fma(x[at + i], x[at + i], sum);
		float root = sqrt(groupSum(sum) / float(push.cols) + push.eps);
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) dst[at + i] = x[at + i] / root * w[i];
	}
}
