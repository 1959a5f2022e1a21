#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Reads n quads, which are zero, and does nothing with them that a compiler could leave out.

layout(set = 0, binding = 0, std430) readonly buffer X { uvec4 x[]; };
layout(set = 0, binding = 1, std430) buffer Sum { uint sum; };
layout(push_constant) uniform Push { uint n; } push;

void main() {
	uvec4 bits = uvec4(0);
	for (uint i = first(); i < push.n; i += stride()) bits |= x[i];
	if ((bits.x | bits.y | bits.z | bits.w) != 0) sum = 1;
}
