#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"
#define PACKED 2
#include "packing.glsl"

// x = act(logits)·x, row by row: package ref's GateRows. With PACK the same is written in eight bits besides.

layout(constant_id = 2) const uint KIND = 0; // compute.Nonlinearity
layout(constant_id = 3) const bool PACK = false; // cols is a multiple of 32

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 0, std430) buffer XQuads { vec4 quads[]; };
layout(set = 0, binding = 1, std430) readonly buffer Logits { float logits[]; };
layout(push_constant) uniform Push { uint n, cols, scales; } push;

float gate(uint row) { return KIND == SOFTPLUS ? softplus(logits[row]) : sigmoid(logits[row]); }

void main() {
	if (!PACK) {
		for (uint i = first(); i < push.n; i += stride())
			x[i] *= gate(i / push.cols);
		return;
	}
	uint parts = push.n / PART;
	for (uint from = gl_WorkGroupID.x * gl_WorkGroupSize.x; from < parts; from += stride()) {
		uint part = from + gl_LocalInvocationID.x;
		vec4 v = vec4(0);
		if (part < parts) {
			v = quads[part] * gate(part * PART / push.cols);
			quads[part] = v;
		}
		pack(part, part < parts, v, push.scales);
	}
}
