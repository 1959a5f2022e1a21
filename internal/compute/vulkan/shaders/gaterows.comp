#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

// x = sigmoid(logits)·x, row by row: package ref's GateRows

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Logits { float logits[]; };
layout(push_constant) uniform Push { uint n, cols; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) x[i] *= sigmoid(logits[i / push.cols]);
}
