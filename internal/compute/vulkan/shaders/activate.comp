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

const uint XIELU = 13, GELU_ERF = 14, GELU_QUICK = 15;

// expm1 is e^x − 1 of x up to 0, by its series near 0, where the difference would lose all bits.
float expm1(float x) {
	float series = x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x / 720.0)))));
	return x > -0.25 ? series : exp(max(x, -80.0)) - 1.0;
}

float xielu(float g, float u) {
	float a = g > 0.0 ? g * fma(push.above, g, push.slope) : fma(push.below, expm1(min(g, push.limit)) - g, push.slope * g);
	return GATED ? a * u : a;
}

// geluErf is g·(1+erf(g/√2))/2: what is above 0 less |g|·erfc(z)/2, z being |g|/√2. erfc(z) is exp(-z²) times a polynomial of
// 1/(1+0.44z), with a relative error of 2e-7.
//
// Source: Abramowitz and Stegun, 7.1.26, for its form; the coefficients are package kernel's.
float geluErf(float g) {
	if (numberless(g))
		return g;
	float c = min(abs(g), 12.0), t = 1.0 / (1.0 + 0.44 * 0.70710678 * c); // beyond, erfc is nothing
	float p = fma(fma(fma(fma(fma(fma(fma(0.0712231681, t, -0.2779467522), t, 0.2966852871), t, -0.02017865177), t, 0.2158111766), t, 0.2173138653), t, 0.248871132), t, 0.2482209566);
	return max(g, 0.0) - 0.5 * c * p * t * exp(-0.5 * c * c);
}

float result(float g, float u) {
	precise float a;
	switch (KIND) {
	case XIELU: return xielu(g, u);
	case GELU_ERF: a = geluErf(g); break;
	case GELU_QUICK: a = g * sigmoid(1.702 * g); break;
	default: return activated(g, u);
	}
	if (GATED)
		a *= u;
	return a;
}

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
