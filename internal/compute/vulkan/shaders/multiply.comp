#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// dst = x·w, column by column: package ref's Multiply

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; };
layout(push_constant) uniform Push { uint n, cols; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) dst[i] = x[i] * w[i % push.cols];
}
