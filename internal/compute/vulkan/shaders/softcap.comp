#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x = limit·tanh(x/limit): package ref's SoftCap. The argument is bounded where exp would overflow; tanh is 1 there.

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n; float limit; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		x[i] = push.limit * (1.0 - 2.0 / (1.0 + exp(min(2.0 * x[i] / push.limit, 80.0))));
	}
}
