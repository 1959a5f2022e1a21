// Rows of activations [n, cols] in the form that products take: int8 with a scale and a sum for every 32 elements, or floats
// filled up with zeros to whole units.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 2) const bool EIGHT_BIT = true;
layout(constant_id = 3) const bool RELU = false; // max(x, 0) is packed

layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Floats { float floats[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Quants { uint quants[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Scales { uvec2 scales[]; };

layout(push_constant) uniform Push {
	uint cols;
	uint packedCols; // cols filled up to whole units
	uint words;      // of four elements, of all rows
	uint scales;     // where scales begin, in pairs of words
} push;

const uint PART = 4, PARTS = 8; // a block of 32 is eight invocations' four elements

shared float tops[gl_WorkGroupSize.x];
shared int sums[gl_WorkGroupSize.x];

vec4 load(uint i) {
	vec4 v = vec4(0);
	uint row = i * PART / push.packedCols, col = i * PART % push.packedCols;
	if (i < push.words)
		[[unroll]] for (uint j = 0; j < PART; j++)
			if (col + j < push.cols)
				v[j] = x[row * push.cols + col + j];
	return RELU ? max(v, 0) : v;
}

void main() {
	uint id = gl_LocalInvocationID.x, first = id / PARTS * PARTS;
	uint i = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * gl_WorkGroupSize.x + id;
	vec4 v = load(i);
	if (!EIGHT_BIT) {
		if (i < push.words)
			[[unroll]] for (uint j = 0; j < PART; j++)
				floats[i * PART + j] = v[j];
		return;
	}
	vec4 a = abs(v);
	tops[id] = max(max(a.x, a.y), max(a.z, a.w));
	barrier();
	float top = 0;
	[[unroll]] for (uint j = 0; j < PARTS; j++)
		top = max(top, tops[first + j]);
	// What is smaller than the smallest number with an inverse is nothing.
	float inverse = top > 1e-36 ? 127 / top : 0;
	ivec4 q = ivec4(roundEven(v * inverse));
	sums[id] = q.x + q.y + q.z + q.w;
	barrier();
	if (i >= push.words)
		return;
	quants[i] = uint(q.x & 255 | (q.y & 255) << 8 | (q.z & 255) << 16 | q.w << 24);
	if (id == first) {
		int sum = 0;
		[[unroll]] for (uint j = 0; j < PARTS; j++)
			sum += sums[first + j];
		scales[push.scales + i / PARTS] = uvec2(floatBitsToUint(inverse == 0 ? 0 : top / 127), uint(sum));
	}
}
