#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define PACKED 4
#include "packing.glsl"
#include "mean.glsl"

// dst = (x−mean)/√(var+eps) · w + b, and with PACK the same in eight bits besides; a workgroup for each row

layout(constant_id = 2) const bool BIASED = true;
layout(constant_id = 3) const bool PACK = false; // cols is a multiple of 32

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
layout(set = 0, binding = 0, std430) buffer DstQuads { vec4 dstQuads[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer XQuads { vec4 xQuads[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; };
layout(set = 0, binding = 2, std430) readonly buffer WQuads { vec4 wQuads[]; };
layout(set = 0, binding = 3, std430) readonly buffer B { float b[]; };
layout(set = 0, binding = 3, std430) readonly buffer BQuads { vec4 bQuads[]; };
layout(push_constant) uniform Push { uint rows, cols; float eps; uint scales; } push;

vec4 normed(vec4 centred, float root, vec4 w, vec4 b) {
	precise vec4 y = centred / root * w;
	if (BIASED)
		y += b;
	return y;
}

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint at = row * push.cols;
		vec2 sum = vec2(0.0);
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) sum = plus(sum, vec2(x[at + i], 0.0));
		float mean = groupMean(sum, push.cols), square = 0.0;
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) square = fma(x[at + i] - mean, x[at + i] - mean, square);
		float root = sqrt(groupSum(square) / float(push.cols) + push.eps);
		if (!PACK) {
			for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x)
				dst[at + i] = normed(vec4(x[at + i] - mean), root, vec4(w[i]), vec4(b[i])).x;
			continue;
		}
		for (uint from = 0; from < push.cols; from += PART * gl_WorkGroupSize.x) {
			uint i = from + PART * gl_LocalInvocationID.x, part = (at + i) / PART;
			vec4 v = vec4(0);
			if (i < push.cols) {
				v = normed(xQuads[part] - mean, root, wQuads[i / PART], bQuads[i / PART]);
				dstQuads[part] = v;
			}
			pack(part, i < push.cols, v, push.scales);
		}
	}
}
