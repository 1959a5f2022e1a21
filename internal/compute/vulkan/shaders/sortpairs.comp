#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Pairs of a token and one of its experts by the expert's slot, as far as it has one of push.experts, those of an expert by token; one workgroup, whose
// invocations each have some slots.

const uint MOST = 1024; // experts; experts.go says the same

layout(set = 0, binding = 0, std430) readonly buffer Choice { float choice[]; };  // [tokens, 2·used]
layout(set = 0, binding = 1, std430) writeonly buffer Sorted { uint sorted[]; }; // [experts + 1] where each slot's pairs begin, and [pairs] the pairs
layout(push_constant) uniform Push {
	uint pairs, used, experts, firstToken;
	uint tabled; // there is a table of slots
	uint all;    // experts of the layer
} push;
#define TABLE 2
#include "slots.glsl"

shared uint begins[MOST + 1];
shared uint slots[MOST]; // of all experts

// chosen is the slot of a pair's expert. Rows of padding may have any numbers.
uint chosen(uint pair) {
	float expert = choice[(push.firstToken + pair / push.used) * 2 * push.used + pair % push.used];
	return expert >= 0 && expert < push.all ? slots[uint(expert)] : NOWHERE;
}

void main() {
	uint i = gl_LocalInvocationID.x;
	for (uint e = i; e < push.all; e += gl_WorkGroupSize.x)
		slots[e] = slotOf(e);
	barrier();
	for (uint e = i; e < push.experts; e += gl_WorkGroupSize.x) {
		uint count = 0;
		for (uint p = 0; p < push.pairs; p++)
			if (chosen(p) == e)
				count++;
		begins[e + 1] = count;
	}
	barrier();
	if (i == 0) {
		begins[0] = 0;
		for (uint e = 0; e < push.experts; e++)
			begins[e + 1] += begins[e];
	}
	barrier();
	for (uint e = i; e <= push.experts; e += gl_WorkGroupSize.x)
		sorted[e] = begins[e];
	for (uint e = i; e < push.experts; e += gl_WorkGroupSize.x) {
		uint at = push.experts + 1 + begins[e];
		for (uint p = 0; p < push.pairs; p++)
			if (chosen(p) == e)
				sorted[at++] = p;
	}
}
