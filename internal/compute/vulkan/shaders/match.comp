#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x = x·√mean(like²) / √max(mean(x²), least): package ref's Match; a workgroup for each row

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Like { float like[]; };
layout(push_constant) uniform Push { uint rows, cols; float least; } push;

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint at = row * push.cols;
		float own = 0.0, wanted = 0.0;
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) {
			own = fma(x[at + i], x[at + i], own);
			wanted = fma(like[at + i], like[at + i], wanted);
		}
		float n = float(push.cols), by = sqrt(groupSum(wanted) / n) / sqrt(max(groupSum(own) / n, push.least));
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) x[at + i] *= by;
	}
}
