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
layout(push_constant) uniform Push { uint n; float threshold; uint scales; float slope, limit, above, below; } push;

#include "activated.glsl"

const uint XIELU = 13;

// expm1 is e^x − 1 of x up to 0, by its series near 0, where the difference would lose all bits.
float expm1(float x) {
	float series = x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x / 720.0)))));
	return x > -0.25 ? series : exp(max(x, -80.0)) - 1.0;
}

float xielu(float g, float u) {
	float a = g > 0.0 ? g * fma(push.above, g, push.slope) : fma(push.below, expm1(min(g, push.limit)) - g, push.slope * g);
	return GATED ? a * u : a;
}

float result(float g, float u) { return KIND == XIELU ? xielu(g, u) : activated(g, u); }

void main() {
	if (!PACK) {
		for (uint i = first(); i < push.n; i += stride())
			dst[i] = result(gate[i], up[i]);
		return;
	}
	uint parts = push.n / PART;
	for (uint from = gl_WorkGroupID.x * gl_WorkGroupSize.x; from < parts; from += stride()) {
		uint part = from + gl_LocalInvocationID.x;
		vec4 v = vec4(0);
		if (part < parts) {
			vec4 g = gateQuads[part], u = upQuads[part];
			[[unroll]] for (uint j = 0; j < PART; j++)
				v[j] = result(g[j], u[j]);
			dstQuads[part] = v;
		}
		pack(part, part < parts, v, push.scales);
	}
}
