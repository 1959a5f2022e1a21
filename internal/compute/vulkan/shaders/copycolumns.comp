#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Copies ranges of columns: package ref's CopyColumns.

layout(set = 0, binding = 0, std430) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer Src { float src[]; };
layout(push_constant) uniform Push { uint n, width, count, dstCols, srcCols, toFirst, toStep, fromFirst, fromStep; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		uint j = i % push.width, range = i / push.width % push.count, t = i / (push.width * push.count);
		dst[t * push.dstCols + push.toFirst + range * push.toStep + j] = src[t * push.srcCols + push.fromFirst + range * push.fromStep + j];
	}
}
