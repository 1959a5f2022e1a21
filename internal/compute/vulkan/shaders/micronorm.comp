#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// scratch: rms norm of a row kept in registers, packed by subgroup shuffles
layout(constant_id = 2) const uint QUADS = 4;
layout(set = 0, binding = 0, std430) buffer Dst { vec4 dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { vec4 w[]; };
layout(set = 0, binding = 3, std430) writeonly buffer PackedQuants { uint packedQuants[]; };
layout(set = 0, binding = 3, std430) writeonly buffer PackedScales { uvec2 packedScales[]; };
layout(push_constant) uniform Push { uint cols; float eps; uint scales; } push;
shared float partial[256];
void main() {
	uint id = gl_LocalInvocationID.x, n = push.cols / 4, at = gl_WorkGroupID.x * n;
	vec4 v[QUADS], g[QUADS];
	[[unroll]] for (uint i = 0; i < QUADS; i++) { uint q = id + i * gl_WorkGroupSize.x; v[i] = q < n ? x[at + q] : vec4(0); g[i] = q < n ? w[q] : vec4(0); }
	float sum = 0;
	[[unroll]] for (uint i = 0; i < QUADS; i++) { sum = fma(v[i].x, v[i].x, sum); sum = fma(v[i].y, v[i].y, sum); sum = fma(v[i].z, v[i].z, sum); sum = fma(v[i].w, v[i].w, sum); }
	sum = subgroupAdd(sum);
	if (subgroupElect()) partial[gl_SubgroupID] = sum;
	barrier();
	sum = 0;
	if (gl_NumSubgroups <= SUBGROUP) {
		sum = gl_SubgroupInvocationID < gl_NumSubgroups ? partial[gl_SubgroupInvocationID] : 0;
		sum = subgroupAdd(sum);
	} else for (uint i = 0; i < gl_NumSubgroups; i++) sum += partial[i];
	float root = sqrt(sum / float(push.cols) + push.eps);
	[[unroll]] for (uint i = 0; i < QUADS; i++) {
		uint q = id + i * gl_WorkGroupSize.x;
		precise vec4 y = v[i] / root * g[i];
		if (q < n) dst[at + q] = y;
		uvec4 a = floatBitsToUint(y) & 0x7fffffffu;
		uint bits = max(max(a.x, a.y), max(a.z, a.w));
		[[unroll]] for (uint m = 1; m < 8; m *= 2) bits = max(bits, subgroupShuffleXor(bits, m));
		float top = uintBitsToFloat(bits);
		precise float inverse = top > 1e-36 ? 127 / top : 0, scale = inverse == 0 ? 0 : top / 127;
		precise vec4 scaled = y * inverse;
		ivec4 c = ivec4(roundEven(scaled));
		int both = c.x + c.y + c.z + c.w;
		both += subgroupShuffleXor(both, 1); both += subgroupShuffleXor(both, 2);
		int other = subgroupShuffleXor(both, 4);
		if (q < n) {
			packedQuants[at + q] = uint(c.x & 255 | (c.y & 255) << 8 | (c.z & 255) << 16 | c.w << 24);
			if (q % 8 == 0) packedScales[push.scales + (at + q) / 8] = uvec2(floatBitsToUint(scale), both & 0xffff | other << 16);
		}
	}
}
