#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// dst = act(gate)·up

layout(constant_id = 2) const uint KIND = 0; // compute.Nonlinearity
layout(constant_id = 3) const bool GATED = true;

#include "activation.glsl"

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer Gate { float gate[]; };
layout(set = 0, binding = 2, std430) readonly buffer Up { float up[]; };
layout(push_constant) uniform Push { uint n; float threshold; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		float a = activation(KIND, push.threshold, gate[i]);
		dst[i] = GATED ? a * factor(KIND, up[i]) : a;
	}
}
