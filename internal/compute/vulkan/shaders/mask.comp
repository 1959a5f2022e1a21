// a_i of all neurons of many tokens, in place of their gates, or of their ups in ungated layers: zero outside the sets, and in padding.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 2) const bool GATED = true;
layout(constant_id = 3) const bool ALL = false; // neurons are in the set

layout(set = 0, binding = 0, std430) buffer Gates { float gates[]; };       // [tokens, neurons]
layout(set = 0, binding = 1, std430) readonly buffer Ups { float ups[]; };  // [tokens, neurons]
layout(set = 0, binding = 2, std430) readonly buffer Bits { uint bits[]; }; // [rows, words]
layout(set = 0, binding = 3, std430) buffer Counts { uint counts[]; };      // predicted, gated, active

layout(push_constant) uniform Push {
	uint tokens;
	uint neurons;    // of the layer; sets may have more
	uint words;      // of a row of bits
	uint firstToken; // row of the step, and of the bits, that belongs to the first token
	Nonlinearity act;
} push;
#define PARAMS 4
#define ROWS 0
#define OUT 0
#include "params.glsl"

void main() {
	uvec3 n = uvec3(0);
	for (uint i = first(); i < push.tokens * push.neurons; i += stride()) {
		uint token = push.firstToken + i / push.neurons, neuron = i % push.neurons;
		float a = 0;
		if (!padding(token) && (ALL || (bits[token * push.words + neuron / 32] >> neuron % 32 & 1) != 0)) {
			float gate = activation(push.act, gates[i]);
			a = GATED ? gate == 0 ? 0 : gate * factor(push.act, ups[i]) : gate;
			n += uvec3(1, gate != 0 ? 1 : 0, a != 0 ? 1 : 0);
		}
		gates[i] = a;
	}
	uint predicted = uint(groupSum(float(n.x))), open = uint(groupSum(float(n.y))), used = uint(groupSum(float(n.z)));
	if (gl_LocalInvocationID.x == 0) {
		atomicAdd(counts[0], predicted);
		atomicAdd(counts[1], open);
		atomicAdd(counts[2], used);
	}
}
