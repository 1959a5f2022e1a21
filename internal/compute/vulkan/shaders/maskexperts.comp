// a of the neurons of pairs of a token and an expert, in place of their gates, or of their ups in ungated layers, where neurons that are zero add
// nothing whatever their ups are, and neither do those whose logit is below the threshold, where there are logits.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 2) const bool GATED = true;
layout(constant_id = 3) const bool PREDICTED = false;

layout(set = 0, binding = 0, std430) buffer Gates { float gates[]; };            // [tokens·used, neurons]
layout(set = 0, binding = 1, std430) readonly buffer Ups { float ups[]; };       // [tokens·used, neurons]
layout(set = 0, binding = 2, std430) readonly buffer Choice { float choice[]; }; // [rows, 2·used]
layout(set = 0, binding = 3, std430) buffer Counts { uint counts[]; };           // predicted, gated, active

layout(push_constant) uniform Push {
	uint pairs;
	uint neurons;    // of an expert
	uint used;       // experts of a token
	uint firstToken; // row of the step, and of the choices, that belongs to the first token
	uint tabled;     // there is a table of slots
	uint experts;    // that there are gates of
	Nonlinearity act;
} push;
#define PARAMS 4
#define ROWS 0
#define OUT 0
#include "params.glsl"
#define TABLE 5
#include "slots.glsl"
layout(set = 0, binding = 6, std430) readonly buffer Logits { float logits[]; }; // [tokens·used, neurons], if PREDICTED

void main() {
	uvec3 n = uvec3(0);
	for (uint i = first(); i < push.pairs * push.neurons; i += stride()) {
		uint pair = i / push.neurons, token = push.firstToken + pair / push.used;
		if (slotChosen(choice[token * 2 * push.used + pair % push.used]) >= push.experts)
			continue;
		if (PREDICTED && !(logits[i] >= threshold())) {
			gates[i] = 0;
			continue;
		}
		float gate = activation(push.act, gates[i]);
		float a = GATED ? gate == 0 ? 0 : gate * factor(push.act, ups[i]) : gate;
		gates[i] = a;
		if (!padding(token))
			n += uvec3(1, gate != 0 ? 1 : 0, a != 0 ? 1 : 0);
	}
	uint predicted = uint(groupSum(float(n.x))), open = uint(groupSum(float(n.y))), used = uint(groupSum(float(n.z)));
	if (gl_LocalInvocationID.x == 0) {
		atomicAdd(counts[0], predicted);
		atomicAdd(counts[1], open);
		atomicAdd(counts[2], used);
	}
}
