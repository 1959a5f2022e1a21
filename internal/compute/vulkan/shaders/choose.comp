// The predicted set as bits: the first neurons always, those behind them whose logit reaches the threshold. An invocation
// makes one word.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(set = 0, binding = 0, std430) readonly buffer Logits { float logits[]; }; // [tokens, neurons - always]
layout(set = 0, binding = 1, std430) writeonly buffer Bits { uint bits[]; };     // [tokens, words]

layout(push_constant) uniform Push {
	uint tokens;
	uint neurons;
	uint always;
	uint room, outs;
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

void main() {
	uint words = (push.neurons + 31) / 32;
	for (uint i = first(); i < push.tokens * words; i += stride()) {
		uint word = 0, row = i / words * (push.neurons - push.always), from = i % words * 32;
		for (uint b = 0; b < min(32, push.neurons - from); b++) {
			uint n = from + b;
			if (n < push.always || logits[row + n - push.always] >= threshold())
				word |= 1u << b;
		}
		bits[i] = word;
	}
}
