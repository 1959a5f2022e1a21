#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x[i] += (1 + w[i]·m)·(y - x[active]): package ref's AltUpCorrect

layout(set = 0, binding = 0, std430) buffer X0 { float x0[]; };
layout(set = 0, binding = 1, std430) buffer X1 { float x1[]; };
layout(set = 0, binding = 2, std430) buffer X2 { float x2[]; };
layout(set = 0, binding = 3, std430) buffer X3 { float x3[]; };
layout(set = 0, binding = 4, std430) readonly buffer M { vec4 m[]; }; // [tokens]
layout(set = 0, binding = 5, std430) readonly buffer W { vec4 w[]; };
layout(set = 0, binding = 6, std430) readonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n, cols, predicted; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		vec4 old = vec4(x0[i], x1[i], x2[i], x3[i]), of = m[i / push.cols];
		float innovation = y[i] - old[push.predicted];
		x0[i] = old.x + (1.0 + dot(w[0], of)) * innovation;
		x1[i] = old.y + (1.0 + dot(w[1], of)) * innovation;
		x2[i] = old.z + (1.0 + dot(w[2], of)) * innovation;
		x3[i] = old.w + (1.0 + dot(w[3], of)) * innovation;
	}
}
