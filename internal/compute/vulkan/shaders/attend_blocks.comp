#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attention.glsl"
#include "kv.glsl"

// Attention over the positions of a window and over blocks, of one KV head whose values are its keys: package ref's AttendBlocks. A
// workgroup has up to four heads of a token, which attend to TILE rows at a time.

layout(constant_id = 2) const uint KEY = 128; // even
layout(constant_id = 3) const uint TYPE = KV_F16; // a float type
layout(constant_id = 4) const uint EVERY = 4; // positions of a block
layout(constant_id = 5) const bool SINKS = false;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; }; // [tokens, heads, KEY]
layout(set = 0, binding = 1, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 2, std430) readonly buffer Raw { uint raw[]; };       // [pages, words, 64]
layout(set = 0, binding = 3, std430) readonly buffer Blocks { uint blocks[]; }; // [pages, rows, words]
layout(set = 0, binding = 4, std430) readonly buffer Chosen { float chosen[]; }; // [tokens, most]: how many, and which
layout(set = 0, binding = 5, std430) readonly buffer Sinks { float sinks[]; };  // [heads]
layout(push_constant) uniform Push {
	uint first, heads;
	float scale;
	uint window;
	uint most; // 0: all blocks are seen
	uint room, outs;
	uint near, nearBlocks; // 1: the layer is one of those with windows; else 0
} push;
#define PARAMS 6
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "rows_of_blocks.glsl"

const uint TILE = 256, PAIRS = KEY / 2, EACH = (PAIRS + TILE - 1) / TILE; // pairs of an invocation
const uint IN_BLOCKS = 0x80000000u; // of a place

shared vec4 queries[KEY]; // of the heads
shared vec4 weights[TILE];
shared uint places[TILE]; // of the tile's rows: the word in which one begins, and whether it is a block's

// pairAt is pair j of a row.
vec2 pairAt(uint place, uint j) {
	bool block = (place & IN_BLOCKS) != 0;
	uint at = place & ~IN_BLOCKS, step = block ? 1 : 64;
	if (TYPE == KV_F32) {
		at += 2 * j * step;
		return block ? uintBitsToFloat(uvec2(blocks[at], blocks[at + 1])) : uintBitsToFloat(uvec2(raw[at], raw[at + 64]));
	}
	uint word = block ? blocks[at + j] : raw[at + j * 64];
	return TYPE == KV_BF16 ? uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u)) : unpackHalf2x16(word);
}

void main() {
	uint id = gl_LocalInvocationID.x, t = push.first + gl_WorkGroupID.x, head = gl_WorkGroupID.y * 4;
	uint n = min(4, push.heads - head), base = (t * push.heads + head) * KEY;
	if (padding(t)) {
		for (uint i = id; i < n * KEY; i += TILE)
			result[base + i] = 0;
		return;
	}
	for (uint i = id; i < KEY; i += TILE) {
		vec4 of = vec4(0);
		for (uint h = 0; h < n; h++)
			of[h] = q[base + h * KEY + i] * push.scale;
		queries[i] = of;
	}
	uint pos = position(t), sequence_ = sequence(t), from = pos + 1 > push.window ? pos + 1 - push.window : 0;
	uint window = pos + 1 - from, whole = (pos + 1) / EVERY, seen = whole;
	if (push.most > 0)
		seen = min(uint(max(int(chosen[t * push.most]), 0)), min(push.most - 1, whole));
	uint all = window + seen;

	vec4 tops = vec4(-3.4e38), sums = vec4(0), even[EACH], odd[EACH];
	[[unroll]] for (uint e = 0; e < EACH; e++)
		even[e] = odd[e] = vec4(0);
	[[dont_unroll]] for (uint begin = 0; begin < all; begin += TILE) {
		uint i = begin + id, count = min(TILE, all - begin);
		bool has = i < all;
		uint place = 0;
		if (i < window) {
			uint at = from + i;
			place = page(sequence_, at / 64, push.near) * 64 * kvWords(TYPE, KEY) + at % 64;
		} else if (has) {
			uint block = i - window;
			if (push.most > 0)
				block = min(uint(max(int(chosen[t * push.most + 1 + block]), 0)), whole - 1);
			uint at = (block + 1) * EVERY - 1;
			place = rowWord(page(sequence_, at / 64, push.nearBlocks), at, TYPE, KEY) | IN_BLOCKS;
		}
		barrier(); // the last tile's values have been added
		places[id] = place;
		vec4 score = vec4(0);
		if (has)
			for (uint j = 0; j < PAIRS; j++) {
				vec2 pair = pairAt(place, j);
				precise vec4 sum = fma(queries[2 * j], pair.xxxx, score);
				sum = fma(queries[2 * j + 1], pair.yyyy, sum);
				score = sum;
			}
		vec4 old = tops;
		[[unroll]] for (uint h = 0; h < 4; h++)
			tops[h] = max(tops[h], groupMax(has ? score[h] : -3.4e38));
		vec4 w = has ? exp(score - tops) : vec4(0), by = exp(old - tops);
		[[unroll]] for (uint h = 0; h < 4; h++)
			sums[h] = fma(sums[h], by[h], groupSum(w[h]));
		weights[id] = w;
		barrier();
		[[unroll]] for (uint e = 0; e < EACH; e++) {
			uint pair = id + e * TILE;
			if (pair >= PAIRS)
				continue;
			vec4 x = even[e] * by, y = odd[e] * by;
			for (uint r = 0; r < count; r++) {
				vec2 value = pairAt(places[r], pair);
				x = fma(weights[r], value.xxxx, x);
				y = fma(weights[r], value.yyyy, y);
			}
			even[e] = x;
			odd[e] = y;
		}
	}
	[[unroll]] for (uint h = 0; h < 4; h++) {
		if (h >= n)
			break;
		float scale = 1 / sums[h];
		if (SINKS)
			scale = withSink(Part(tops[h], sums[h]), sinks[head + h]);
		[[unroll]] for (uint e = 0; e < EACH; e++) {
			uint pair = id + e * TILE;
			if (pair >= PAIRS)
				continue;
			result[base + h * KEY + 2 * pair] = even[e][h] * scale;
			result[base + h * KEY + 2 * pair + 1] = odd[e][h] * scale;
		}
	}
}
