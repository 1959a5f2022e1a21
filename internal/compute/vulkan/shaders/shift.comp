#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x += b, column by column: package ref's Shift

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer B { float b[]; };
layout(push_constant) uniform Push { uint n, cols; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) x[i] += b[i % push.cols];
}
