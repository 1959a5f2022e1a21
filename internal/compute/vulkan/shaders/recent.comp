#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// result[t, s] = 1 + the token s positions before t, 0 where the sequence has none: package ref's Recent. The state holds the last TOKENS−1 before the
// step, the oldest first. Each run has an invocation.

layout(constant_id = 2) const uint TOKENS = 3;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; }; // [tokens, TOKENS]
layout(set = 0, binding = 1, std430) buffer State { float state[]; };
#define RUNS 2
#include "runs.glsl"
layout(push_constant) uniform Push { uint rows, size, room, outs; } push;
#define PARAMS 3
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

void main() {
	for (uint row = first(); row < push.rows; row += stride()) {
		uint n = runs[row].x, slot = runs[row].y, at = (slot & ~FRESH) * push.size;
		if (n == 0)
			continue;
		float window[TOKENS]; // the newest last
		for (uint k = 0; k + 1 < TOKENS; k++) window[k + 1] = (slot & FRESH) != 0 ? 0.0 : state[at + k];
		for (uint t = row; t < row + n; t++) {
			for (uint k = 0; k + 1 < TOKENS; k++) window[k] = window[k + 1];
			window[TOKENS - 1] = float(token(t) + 1);
			for (uint s = 0; s < TOKENS; s++) result[t * TOKENS + s] = window[TOKENS - 1 - s];
		}
		for (uint k = 0; k + 1 < TOKENS; k++) state[at + k] = window[k + 1];
	}
}
