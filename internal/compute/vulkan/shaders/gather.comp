#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// dst[i] = x[Out[i]]

layout(set = 0, binding = 0, std430) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(push_constant) uniform Push { uint n, cols, room; } push;
#define PARAMS 2
#define ROWS push.room
#define OUT 0
#include "params.glsl"

void main() {
	for (uint i = first(); i < push.n; i += stride()) dst[i] = x[outRow(i / push.cols) * push.cols + i % push.cols];
}
