// The bits of a set from products that were computed before: see test.glsl. A workgroup looks at 256 neurons of a token.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 2) const uint TEST = 1;

layout(set = 0, binding = 0, std430) readonly buffer Products { float products[]; }; // [tokens, neurons - always]
layout(set = 0, binding = 1, std430) writeonly buffer Bits { uint bits[]; };         // [tokens, words]
layout(set = 0, binding = 2, std430) writeonly buffer Values { float values[]; };    // [tokens, neurons] of OPEN

layout(push_constant) uniform Push {
	uint neurons;
	uint always;
	Nonlinearity act;
} push;
#define PARAMS 3
#define ROWS 0
#define OUT 0
#include "params.glsl"
#include "test.glsl"

const uint LOCAL = 256;

shared uint chosen[LOCAL / 32];

void main() {
	uint id = gl_LocalInvocationID.x, token = gl_WorkGroupID.y, neuron = gl_WorkGroupID.x * LOCAL + id;
	if (id < LOCAL / 32)
		chosen[id] = 0;
	barrier();
	bool always = neuron < push.always;
	float product = always || neuron >= push.neurons ? 0 : products[token * (push.neurons - push.always) + neuron - push.always];
	if (neuron < push.neurons && member(TEST, always, push.act, product))
		atomicOr(chosen[id / 32], 1u << id % 32);
	if (neuron < push.neurons && TEST == OPEN)
		values[token * push.neurons + neuron] = product;
	barrier();
	uint words = (push.neurons + 31) / 32, word = gl_WorkGroupID.x * (LOCAL / 32) + id;
	if (id < LOCAL / 32 && word < words)
		bits[token * words + word] = chosen[id];
}
