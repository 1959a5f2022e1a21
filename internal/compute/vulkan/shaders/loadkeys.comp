#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "half.glsl"
#include "kv.glsl"

// Reads keys from the tokens' places; kv.go has the layout. Rows of padding stay as they are.

layout(constant_id = 2) const uint KEYS = KV_F16;

layout(set = 0, binding = 0, std430) readonly buffer Keys { uint keyCache[]; };
layout(set = 0, binding = 0, std430) readonly buffer KeyScales { uint16_t keyScales[]; };
layout(set = 0, binding = 1, std430) writeonly buffer K { float k[]; }; // [tokens, heads, keys]
layout(push_constant) uniform Push {
	uint n, heads; // n = tokens · heads · units of keys
	uint keys; // elements of a head
	uint room, outs;
	uint near; // 1: the layer is one of those with windows; else 0
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

// load reads one unit of a head's elements, the first of which is number first: a pair, or a block.
void load(uint first, uint unit, uint head, uint slot) {
	uint words = kvWords(KEYS, push.keys), blocks = kvBlocks(KEYS, push.keys);
	uint base = head * kvHeadWords(KEYS, push.keys), at = base + slot;
	if (KEYS == KV_F32) {
		k[first + 2 * unit] = uintBitsToFloat(keyCache[at + 2 * unit * 64]);
		k[first + 2 * unit + 1] = uintBitsToFloat(keyCache[at + (2 * unit + 1) * 64]);
		return;
	}
	if (blocks == 0) {
		uint word = keyCache[at + unit * 64];
		vec2 pair = KEYS == KV_BF16 ? uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u)) : unpackHalf2x16(word);
		k[first + 2 * unit] = pair.x;
		k[first + 2 * unit + 1] = pair.y;
		return;
	}
	float d = unpackHalf2x16(uint(keyScales[2 * (base + 64 * words) + unit * 64 + slot])).x;
	uint to = first + 32 * unit, per = words / blocks;
	for (uint w = 0; w < per; w++) {
		uint word = keyCache[at + (unit * per + w) * 64];
		for (uint j = 0; j < 4; j++) {
			if (KEYS == KV_Q8_0) {
				k[to + 4 * w + j] = d * float(bitfieldExtract(int(word), int(8 * j), 8));
			} else {
				k[to + 4 * w + j] = d * (float(word >> 8 * j & 15u) - 8);
				k[to + 16 + 4 * w + j] = d * (float(word >> 8 * j + 4 & 15u) - 8);
			}
		}
	}
}

void main() {
	uint units = kvUnits(KEYS, push.keys);
	for (uint i = first(); i < push.n; i += stride()) {
		uint row = i / units, unit = i % units, head = row % push.heads, t = row / push.heads;
		if (padding(t))
			continue;
		uint pos = position(t);
		load(row * push.keys, unit, page(sequence(t), pos / 64, push.near) * push.heads + head, pos % 64);
	}
}
