#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x *= factor: package ref's Scale

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n; float factor; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) x[i] *= push.factor;
}
