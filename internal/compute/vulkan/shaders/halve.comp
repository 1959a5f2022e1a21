// Rows of activations [n, cols] in halves, for halftile.glsl: every row times a power of two that makes its largest element less than
// 2^TOP, filled up with zeros to whole steps; behind the halves of all rows the inverse of each row's power. A workgroup for each row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "half.glsl"

layout(constant_id = 2) const int TOP = 0;
layout(constant_id = 3) const bool POSITIVE = false; // max(x, 0) is taken

layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Halves { uint halves[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Scales { float scales[]; };

layout(push_constant) uniform Push {
	uint cols;
	uint pairs;  // of a row in halves
	uint scales; // where they begin
} push;

float element(uint row, uint col) {
	float v = col < push.cols ? x[row * push.cols + col] : 0;
	return POSITIVE ? max(v, 0) : v;
}

void main() {
	uint row = gl_WorkGroupID.x;
	float top = 0;
	for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x)
		top = max(top, abs(element(row, i)));
	top = groupMax(top);
	// top lies in [2^(e-1), 2^e); its exponent is bounded so that both powers are normal numbers.
	int e = clamp(int(floatBitsToUint(top) >> 23) - 126, TOP - 126, TOP + 126);
	precise float power = uintBitsToFloat(uint(127 + TOP - e) << 23), inverse = uintBitsToFloat(uint(127 - TOP + e) << 23);
	for (uint i = gl_LocalInvocationID.x; i < push.pairs; i += gl_WorkGroupSize.x) {
		precise vec2 scaled = vec2(element(row, 2 * i), element(row, 2 * i + 1)) * power;
		halves[row * push.pairs + i] = halfBits(scaled.x) | halfBits(scaled.y) << 16;
	}
	if (gl_LocalInvocationID.x == 0)
		scales[push.scales + row] = inverse;
}
