#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

// x = act(logits)·x, row by row: package ref's GateRows

layout(constant_id = 2) const uint KIND = 0; // compute.Nonlinearity

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Logits { float logits[]; };
layout(push_constant) uniform Push { uint n, cols; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) x[i] *= KIND == SOFTPLUS ? softplus(logits[i / push.cols]) : sigmoid(logits[i / push.cols]);
}
