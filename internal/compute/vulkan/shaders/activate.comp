#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PACKED 3
#include "packing.glsl"

// dst = act(gate)·up, and with PACK the same in eight bits besides

layout(constant_id = 2) const uint KIND = 0; // compute.Nonlinearity
layout(constant_id = 3) const bool GATED = true;
layout(constant_id = 4) const bool PACK = false; // n is a multiple of 32

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
layout(set = 0, binding = 0, std430) buffer DstQuads { vec4 dstQuads[]; };
layout(set = 0, binding = 1, std430) readonly buffer Gate { float gate[]; };
layout(set = 0, binding = 1, std430) readonly buffer GateQuads { vec4 gateQuads[]; };
layout(set = 0, binding = 2, std430) readonly buffer Up { float up[]; };
layout(set = 0, binding = 2, std430) readonly buffer UpQuads { vec4 upQuads[]; };
layout(push_constant) uniform Push { uint n; float threshold; uint scales; float slope, limit; } push;

#include "activated.glsl"

void main() {
	if (!PACK) {
		for (uint i = first(); i < push.n; i += stride())
			dst[i] = activated(gate[i], up[i]);
		return;
	}
	uint parts = push.n / PART;
	for (uint from = gl_WorkGroupID.x * gl_WorkGroupSize.x; from < parts; from += stride()) {
		uint part = from + gl_LocalInvocationID.x;
		vec4 v = vec4(0);
		if (part < parts) {
			vec4 g = gateQuads[part], u = upQuads[part];
			[[unroll]] for (uint j = 0; j < PART; j++)
				v[j] = activated(g[j], u[j]);
			dstQuads[part] = v;
		}
		pack(part, part < parts, v, push.scales);
	}
}
