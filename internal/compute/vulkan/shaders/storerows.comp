#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "half.glsl"
#include "kv.glsl"

// Writes keys of a layer that keeps those of the last of every EVERY positions; kv.go has the layout.

layout(constant_id = 2) const uint TYPE = KV_F16; // a float type
layout(constant_id = 3) const uint EVERY = 4;

layout(set = 0, binding = 0, std430) writeonly buffer Keys { uint keys[]; };
layout(set = 0, binding = 1, std430) readonly buffer K { float k[]; }; // [tokens, cols]
layout(push_constant) uniform Push {
	uint n, cols; // n = tokens · pairs of columns
	uint room, outs;
	uint near; // 1: the layer is one of those with windows; else 0
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "rows_of_blocks.glsl"

void main() {
	uint pairs = push.cols / 2;
	for (uint i = first(); i < push.n; i += stride()) {
		uint t = i / pairs, j = i % pairs;
		if (padding(t) || (position(t) + 1) % EVERY != 0)
			continue;
		uint at = rowWord(page(sequence(t), position(t) / 64, push.near), position(t), TYPE, push.cols);
		float x = k[2 * i], y = k[2 * i + 1];
		if (TYPE == KV_F32) {
			keys[at + 2 * j] = floatBitsToUint(x);
			keys[at + 2 * j + 1] = floatBitsToUint(y);
		} else {
			keys[at + j] = TYPE == KV_BF16 ? bfloatBits(x) | bfloatBits(y) << 16 : halfBits(x) | halfBits(y) << 16;
		}
	}
}
