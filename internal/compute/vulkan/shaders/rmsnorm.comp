#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define PACKED 4
#include "packing.glsl"

// dst = x / √(mean(x²)+eps) · w, and with PACK the same in eight bits besides; a workgroup for each row

layout(constant_id = 3) const bool PACK = false; // cols is a multiple of 32

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
layout(set = 0, binding = 0, std430) buffer DstQuads { vec4 dstQuads[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer XQuads { vec4 xQuads[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { float w[]; };
layout(set = 0, binding = 2, std430) readonly buffer WQuads { vec4 wQuads[]; };
layout(push_constant) uniform Push { uint rows, cols; float eps; uint scales; } push;

vec4 normed(vec4 x, float root, vec4 w) {
	precise vec4 y = x / root * w;
	return y;
}

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint at = row * push.cols;
		float sum = 0.0;
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) sum = fma(x[at + i], x[at + i], sum);
		float root = sqrt(groupSum(sum) / float(push.cols) + push.eps);
		if (!PACK) {
			for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x)
				dst[at + i] = normed(vec4(x[at + i]), root, vec4(w[i])).x;
			continue;
		}
		for (uint from = 0; from < push.cols; from += PART * gl_WorkGroupSize.x) {
			uint i = from + PART * gl_LocalInvocationID.x, part = (at + i) / PART;
			vec4 v = vec4(0);
			if (i < push.cols) {
				v = normed(xQuads[part], root, wQuads[i / PART]);
				dstQuads[part] = v;
			}
			pack(part, i < push.cols, v, push.scales);
		}
	}
}
