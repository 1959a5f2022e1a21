#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x[i] += Σ_j c_ij·x[j], c = w·m for each token: package ref's AltUpPredict

layout(set = 0, binding = 0, std430) buffer X0 { float x0[]; };
layout(set = 0, binding = 1, std430) buffer X1 { float x1[]; };
layout(set = 0, binding = 2, std430) buffer X2 { float x2[]; };
layout(set = 0, binding = 3, std430) buffer X3 { float x3[]; };
layout(set = 0, binding = 4, std430) readonly buffer M { vec4 m[]; }; // [tokens]
layout(set = 0, binding = 5, std430) readonly buffer W { vec4 w[]; };
layout(push_constant) uniform Push { uint n, cols; } push;

// mix is what a stream gets whose coefficients are w's rows from row on.
float mix(vec4 old, vec4 m, uint row) {
	return dot(old, vec4(dot(w[row], m), dot(w[row + 1], m), dot(w[row + 2], m), dot(w[row + 3], m)));
}

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		vec4 old = vec4(x0[i], x1[i], x2[i], x3[i]), of = m[i / push.cols];
		x0[i] = old.x + mix(old, of, 0);
		x1[i] = old.y + mix(old, of, 4);
		x2[i] = old.z + mix(old, of, 8);
		x3[i] = old.w + mix(old, of, 12);
	}
}
