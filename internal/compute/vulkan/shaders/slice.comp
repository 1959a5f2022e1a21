#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// dst[i] = x[i] from a column on: package ref's Slice

layout(set = 0, binding = 0, std430) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(push_constant) uniform Push { uint n, some, cols, from; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) dst[i] = x[i / push.some * push.cols + push.from + i % push.some];
}
