// The bits of a set from products that were computed before: see test.glsl. With MARK neurons' a, too, whose gates or, without gates, ups the products are.
// A workgroup looks at 256 neurons of a token.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 2) const uint TEST = 1;
layout(constant_id = 3) const uint MARK = 0;
const uint UNGATED = 1, GATED = 2; // of MARK

layout(set = 0, binding = 0, std430) readonly buffer Products { float products[]; }; // [tokens, neurons - always]
layout(set = 0, binding = 1, std430) writeonly buffer Bits { uint bits[]; };         // [tokens, words]
layout(set = 0, binding = 2, std430) writeonly buffer Values { uint values[]; };     // [tokens, neurons]: act(…) of OPEN, or a as neurons.glsl has it
layout(set = 0, binding = 4, std430) readonly buffer Ups { float ups[]; };           // [tokens, neurons] of GATED

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
#include "neurons.glsl"

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
	if (neuron < push.neurons && MARK != 0) {
		uint at = token * push.neurons + neuron;
		float gate = TEST == OPEN ? product : activation(push.act, product);
		precise float a = MARK == GATED ? gate * factor(push.act, ups[at]) : gate;
		values[at] = gate == 0 ? CLOSED : marked(a);
	} else if (neuron < push.neurons && TEST == OPEN) {
		values[token * push.neurons + neuron] = floatBitsToUint(product);
	}
	if (TEST == NONE)
		return;
	barrier();
	uint words = (push.neurons + 31) / 32, word = gl_WorkGroupID.x * (LOCAL / 32) + id;
	if (id < LOCAL / 32 && word < words)
		bits[token * words + word] = chosen[id];
}
