// Scores of positions by index queries: package ref's Select. An invocation has a position, a workgroup 256 of them of one of a token's groups.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "kv.glsl"

layout(constant_id = 2) const uint KEY = 128; // even
layout(constant_id = 3) const uint KEY_TYPE = KV_F16;
layout(constant_id = 4) const bool WEIGHTS = false;
layout(constant_id = 5) const bool RECTIFIED = false;
layout(constant_id = 6) const bool ENDS = false; // only the last positions of blocks have scores
layout(constant_id = 7) const uint EVERY = 0; // only the last of every so many positions has a row; 0: every position has

layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; }; // [tokens, groups, heads, KEY]
layout(set = 0, binding = 1, std430) readonly buffer K { uint k[]; }; // one KV head
layout(set = 0, binding = 1, std430) readonly buffer KeyScales { uint16_t keyScales[]; };
layout(set = 0, binding = 2, std430) readonly buffer W { float weights[]; }; // [tokens, groups, heads]
layout(set = 0, binding = 3, std430) writeonly buffer Scores { float scores[]; }; // [tokens in progress, groups, stride]

layout(push_constant) uniform Push {
	uint first; // of the tokens in progress
	uint groups, heads, stride, block, top;
	uint room, outs;
	uint near;
} push;
#define PARAMS 4
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "pairs.glsl"
#include "rows_of_blocks.glsl"

// rowPair is pair j of a row of a float type that begins at a word.
vec2 rowPair(uint at, uint j) { return KEY_TYPE == KV_F32 ? pairOf(KV_F32, k[at + 2 * j], k[at + 2 * j + 1], 0, 1) : pairOf(KEY_TYPE, k[at + j], 0, 0, 1); }

const uint TILE = 8; // queries at a time
shared float queries[TILE * KEY];

void main() {
	uint id = gl_LocalInvocationID.x, group = gl_WorkGroupID.y, token = push.first + gl_WorkGroupID.z;
	if (padding(token))
		return;
	uint own = position(token), candidates = ENDS ? (own + 1) / push.block : own / push.block + 1;
	if (candidates <= push.top) // all are chosen
		return;
	uint n = ENDS ? candidates : own + 1, list = token * push.groups + group, to = (gl_WorkGroupID.z * push.groups + group) * push.stride;
	for (uint from = gl_WorkGroupID.x * gl_WorkGroupSize.x; from < n; from += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
		uint i = from + id, at = min(ENDS ? i * push.block + push.block - 1 : i, own);
		uint lies = page(sequence(token), at / 64, push.near);
		if (EVERY > 0)
			lies = rowWord(lies, at, KEY_TYPE, KEY);
		float score = 0;
		for (uint h = 0; h < push.heads; h += TILE) {
			barrier();
			for (uint e = id; e < TILE * KEY; e += gl_WorkGroupSize.x)
				queries[e] = h + e / KEY < push.heads ? q[(list * push.heads + h) * KEY + e] : 0;
			barrier();
			float products[TILE];
			[[unroll]] for (uint t = 0; t < TILE; t++)
				products[t] = 0;
			for (uint j = 0; j < KEY / 2; j++) {
				vec2 key = EVERY > 0 ? rowPair(lies, j) : keyPair(lies, at % 64, j);
				[[unroll]] for (uint t = 0; t < TILE; t++) {
					precise float sum = fma(queries[t * KEY + 2 * j], key.x, products[t]);
					sum = fma(queries[t * KEY + 2 * j + 1], key.y, sum);
					products[t] = sum;
				}
			}
			[[unroll]] for (uint t = 0; t < TILE; t++) {
				if (h + t >= push.heads)
					break;
				float p = RECTIFIED ? max(products[t], 0) : products[t];
				precise float sum = WEIGHTS ? fma(weights[list * push.heads + h + t], p, score) : score + p;
				score = sum;
			}
		}
		if (i < n)
			scores[to + i] = score;
	}
}
