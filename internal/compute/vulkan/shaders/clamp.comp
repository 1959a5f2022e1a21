#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x in [low, high]: package ref's Clamp

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n; float low, high; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) x[i] = clamp(x[i], push.low, push.high);
}
