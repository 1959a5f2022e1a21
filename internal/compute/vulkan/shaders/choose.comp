// The predicted set as bits: the first neurons always, those behind them whose logit reaches the threshold. A workgroup looks
// at 256 neurons of a token.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Logits { float logits[]; }; // [tokens, neurons - always]
layout(set = 0, binding = 1, std430) writeonly buffer Bits { uint bits[]; };     // [tokens, words]

layout(push_constant) uniform Push {
	uint neurons;
	uint always;
	uint room, outs;
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

const uint LOCAL = 256;

shared uint chosen[LOCAL / 32];

void main() {
	uint id = gl_LocalInvocationID.x, token = gl_WorkGroupID.y, neuron = gl_WorkGroupID.x * LOCAL + id;
	if (id < LOCAL / 32)
		chosen[id] = 0;
	barrier();
	if (neuron < push.neurons && (neuron < push.always || logits[token * (push.neurons - push.always) + neuron - push.always] >= threshold()))
		atomicOr(chosen[id / 32], 1u << id % 32);
	barrier();
	uint words = (push.neurons + 31) / 32, word = neuron / LOCAL * (LOCAL / 32) + id;
	if (id < LOCAL / 32 && word < words)
		bits[token * words + word] = chosen[id];
}
