#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Each token's sum of what its experts gave, by their weights, in the order of its choice: the end of package ref's Experts.

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; };   // [tokens, cols]
layout(set = 0, binding = 1, std430) readonly buffer Parts { float parts[]; };   // [tokens·used, cols]
layout(set = 0, binding = 2, std430) readonly buffer Choice { float choice[]; }; // [tokens, 2·used]
layout(push_constant) uniform Push {
	uint n; // tokens·cols
	uint cols, used;
	uint weighed;
	uint tabled;  // there is a table of slots
	uint experts; // that there are parts of
	uint firstToken; // row of the result and of the choices that belongs to the first token
} push;
#define TABLE 3
#include "slots.glsl"

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		uint token = i / push.cols, col = i % push.cols;
		precise float sum = 0;
		bool broken = false;
		for (uint k = 0; k < push.used; k++) {
			if (slotChosen(choice[(push.firstToken + token) * 2 * push.used + k]) >= push.experts)
				continue;
			float w = choice[((push.firstToken + token) * 2 + 1) * push.used + k];
			broken = broken || (floatBitsToUint(w) & 0x7fffffffu) > 0x7f800000u;
			float y = parts[(token * push.used + k) * push.cols + col];
			sum += push.weighed != 0 ? w * y : y;
		}
		result[(push.firstToken + token) * push.cols + col] = broken ? uintBitsToFloat(0x7fc00000u) : sum;
	}
}
