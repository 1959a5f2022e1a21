// Rows of activations [n, cols] in the form that products take: in eight bits, or as floats filled up with zeros to whole units.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PACKED 1
#include "packing.glsl"

layout(constant_id = 2) const bool EIGHT_BIT = true;
layout(constant_id = 3) const bool POSITIVE = false; // max(x, 0) is packed

layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 0, std430) readonly buffer XQuads { vec4 xQuads[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Floats { vec4 floats[]; };

layout(push_constant) uniform Push {
	uint cols;
	uint packedCols; // cols filled up to whole units
	uint parts;      // of all rows
	uint scales;     // where scales begin, in pairs of words
} push;

void main() {
	uint i = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
	uint row = i * PART / push.packedCols, col = i * PART % push.packedCols;
	bool here = i < push.parts;
	vec4 v = vec4(0);
	if (EIGHT_BIT) { // blocks are whole
		if (here)
			v = xQuads[i];
	} else {
		[[unroll]] for (uint j = 0; j < PART; j++)
			if (here && col + j < push.cols)
				v[j] = x[row * push.cols + col + j];
	}
	if (POSITIVE)
		v = max(v, 0);
	if (EIGHT_BIT)
		pack(i, here, v, push.scales);
	else if (here)
		floats[i] = v;
}
