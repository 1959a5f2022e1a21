#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "half.glsl"

// Writes keys and values as halves to the tokens' places; kv.go has the layout.

layout(set = 0, binding = 0, std430) writeonly buffer Keys { uint keyCache[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Values { uint valueCache[]; };
layout(set = 0, binding = 2, std430) readonly buffer K { vec2 k[]; }; // [tokens, heads, keys]
layout(set = 0, binding = 3, std430) readonly buffer V { vec2 v[]; }; // [tokens, heads, values]
layout(push_constant) uniform Push {
	uint n, heads; // n = tokens · heads · the larger of keys and values
	uint keys, values; // pairs of a head
	uint room, outs;
} push;
#define PARAMS 4
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

uint word(vec2 x) { return halfBits(x.x) | halfBits(x.y) << 16; }

void main() {
	for (uint i = first(); i < push.n; i += stride()) {
		uint wide = max(push.keys, push.values), row = i / wide, pair = i % wide, head = row % push.heads, t = row / push.heads;
		if (padding(t))
			continue;
		uint pos = position(t), slot = pos % 64;
		uint at = page(sequence(t), pos / 64) * push.heads + head;
		if (pair < push.keys)
			keyCache[(at * push.keys + pair) * 64 + slot] = word(k[row * push.keys + pair]);
		if (pair < push.values)
			valueCache[(at * 64 + slot) * push.values + pair] = word(v[row * push.values + pair]);
	}
}
