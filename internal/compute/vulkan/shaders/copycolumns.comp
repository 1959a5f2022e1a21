#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PACKED 4
#include "packing.glsl"

// Copies ranges of columns, up to three times to one tensor: package ref's CopyColumns. With PACK there is one copy, of all columns, and the
// same is written in eight bits besides.

layout(constant_id = 2) const bool PACK = false; // the ranges follow each other, and their width is a multiple of 32

layout(set = 0, binding = 0, std430) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer Src0 { float src0[]; };
layout(set = 0, binding = 2, std430) readonly buffer Src1 { float src1[]; };
layout(set = 0, binding = 3, std430) readonly buffer Src2 { float src2[]; };

struct Copy { uint n, width, count, srcCols, toFirst, toStep, fromFirst, fromStep; };
layout(push_constant) uniform Push {
	Copy copies[3];
	uint dstCols, scales;
} push;

// copied copies element i of a copy.
float copied(uint copy, Copy c, uint i) {
	uint j = i % c.width, range = i / c.width % c.count, t = i / (c.width * c.count), from = t * c.srcCols + c.fromFirst + range * c.fromStep + j;
	float v = copy == 0 ? src0[from] : copy == 1 ? src1[from] : src2[from];
	dst[t * push.dstCols + c.toFirst + range * c.toStep + j] = v;
	return v;
}

void main() {
	uint copy = gl_WorkGroupID.y;
	Copy c = push.copies[copy];
	if (!PACK) {
		for (uint i = first(); i < c.n; i += stride())
			copied(copy, c, i);
		return;
	}
	uint parts = c.n / PART;
	for (uint from = gl_WorkGroupID.x * gl_WorkGroupSize.x; from < parts; from += stride()) {
		uint part = from + gl_LocalInvocationID.x;
		vec4 v = vec4(0);
		if (part < parts)
			[[unroll]] for (uint j = 0; j < PART; j++)
				v[j] = copied(0, c, part * PART + j);
		pack(part, part < parts, v, push.scales);
	}
}
