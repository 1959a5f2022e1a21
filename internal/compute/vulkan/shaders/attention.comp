// Attention with an online softmax over a cache in pages: QUERIES rows of q that share a KV head, HEADS query heads for
// each of QUERIES/HEADS tokens. With WHOLE a workgroup attends to all positions, split after split, and writes the output;
// otherwise it attends to one split and leaves its part of the softmax for combine.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attention.glsl"

layout(constant_id = 2) const uint DIM = 128; // of a head; even
layout(constant_id = 3) const uint QUERIES = 8;
layout(constant_id = 4) const uint HEADS = 8;
layout(constant_id = 5) const bool WHOLE = false;

layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1, std430) readonly buffer K { uint k[]; }; // pairs of halves [pages, kv_heads, DIM/2, 64]
layout(set = 0, binding = 2, std430) readonly buffer V { uint v[]; }; // [pages, kv_heads, 64, DIM/2]
layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Splits { float splits[]; }; // [n, heads, maxSplits, DIM + 2]

layout(push_constant) uniform Push {
	uint tokens;
	uint heads;     // of q
	uint kvHeads;
	uint maxSplits;
	float scale;
	uint room, outs;
} push;
#define PARAMS 5
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

const uint PAGE = 64, PAIRS = DIM / 2;
const uint TOKENS = QUERIES / HEADS;
const uint LOCAL = SPLIT;            // an invocation for every position
const uint SLICES = LOCAL / PAIRS;   // of the positions, when values are summed: an invocation for every pair and slice
const uint SLICE = (SPLIT + SLICES - 1) / SLICES;
const uint EACH = (DIM + LOCAL - 1) / LOCAL; // elements of an output that an invocation keeps
const uint CHUNKS = 32, CHUNK = SPLIT / CHUNKS; // of a row of scores, when it is reduced

shared vec2 queries[QUERIES * PAIRS];
shared float scores[QUERIES * SPLIT];
shared float chunks[QUERIES * CHUNKS];
shared vec2 slices[SLICES * PAIRS];
shared Part parts[QUERIES];
shared int limits[QUERIES]; // the last position that a row attends to; -1 where it takes no part

uint id = gl_LocalInvocationID.x;

// Where the workgroup works.
uint kvHead, firstHead, firstToken;

uint tokenOf(uint row) { return firstToken + row / HEADS; }
uint headOf(uint row) { return firstHead + row % HEADS; }
bool exists(uint row) { return tokenOf(row) < push.tokens && headOf(row) < (kvHead + 1) * (push.heads / push.kvHeads); }

// block is where a page's keys or values of the head begin.
uint block(uint page) { return (page * push.kvHeads + kvHead) * PAGE * PAIRS; }

// reduce gives chunks their largest score, or their sum, and parts the rows'.
void reduce(bool sums) {
	for (uint i = id; i < QUERIES * CHUNKS; i += LOCAL) {
		uint at = i / CHUNKS * SPLIT + i % CHUNKS;
		precise float r = scores[at];
		for (uint j = 1; j < CHUNK; j++) {
			float s = scores[at + j * CHUNKS];
			r = sums ? r + s : max(r, s);
		}
		chunks[i] = r;
	}
	barrier();
	if (id < QUERIES) {
		precise float r = chunks[id * CHUNKS];
		for (uint j = 1; j < CHUNKS; j++) {
			float s = chunks[id * CHUNKS + j];
			r = sums ? r + s : max(r, s);
		}
		if (sums)
			parts[id].sum = r;
		else
			parts[id].top = r;
	}
	barrier();
}

const float NOTHING = -3.4e38; // less than any score

// score fills scores with the exponentials of a split's positions, and parts.
void score(uint sequence, uint from, int last) {
	int position = int(from + id);
	float s[QUERIES];
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		s[r] = 0;
	if (position <= last) {
		uint at = block(page(sequence, uint(position) / PAGE)) + uint(position) % PAGE;
		for (uint j = 0; j < PAIRS; j++) {
			vec2 key = unpackHalf2x16(k[at + j * PAGE]);
			[[unroll]] for (uint r = 0; r < QUERIES; r++) {
				vec2 query = queries[r * PAIRS + j];
				precise float sum = fma(query.y, key.y, fma(query.x, key.x, s[r]));
				s[r] = sum;
			}
		}
	}
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		scores[r * SPLIT + id] = position <= limits[r] ? s[r] * push.scale : NOTHING;
	barrier();
	reduce(false);
	[[unroll]] for (uint r = 0; r < QUERIES; r++) {
		uint at = r * SPLIT + id;
		scores[at] = position <= limits[r] ? exp(scores[at] - parts[r].top) : 0;
	}
	barrier();
	reduce(true);
}

// values are the sums of a split's values, weighted with scores. An invocation has the pair id%PAIRS of slice id/PAIRS.
void values(uint sequence, uint from, int last, out vec2 sums[QUERIES]) {
	uint pair = id % PAIRS, slice = id / PAIRS;
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		sums[r] = vec2(0);
	if (slice >= SLICES)
		return;
	uint end = min(min((slice + 1) * SLICE, SPLIT), uint(last + 1) - from);
	for (uint i = slice * SLICE; i < end; i++) {
		uint position = from + i;
		vec2 value = unpackHalf2x16(v[block(page(sequence, position / PAGE)) + position % PAGE * PAIRS + pair]);
		[[unroll]] for (uint r = 0; r < QUERIES; r++) {
			float w = scores[r * SPLIT + i];
			precise float x = fma(w, value.x, sums[r].x), y = fma(w, value.y, sums[r].y);
			sums[r] = vec2(x, y);
		}
	}
}

float total[QUERIES * EACH];
Part totals[QUERIES];

// take adds a row's part of the split, or leaves it to combine.comp. sums are of one slice; slices are added in order.
void take(uint r, vec2 sums, uint split) {
	barrier();
	if (id < SLICES * PAIRS)
		slices[id] = sums;
	barrier();
	bool takes = limits[r] >= int(split * SPLIT);
	Part part = parts[r];
	vec2 by = vec2(0, 1);
	if (WHOLE && takes)
		by = merge(totals[r], part, split == 0);
	uint at = ((tokenOf(r) * push.heads + headOf(r)) * push.maxSplits + split) * (DIM + 2);
	[[unroll]] for (uint e = 0; e < EACH; e++) {
		uint d = id + e * LOCAL;
		if (d >= DIM || !takes)
			continue;
		precise float sum = slices[d / 2][d % 2];
		for (uint s = 1; s < SLICES; s++)
			sum += slices[s * PAIRS + d / 2][d % 2];
		if (WHOLE)
			total[r * EACH + e] = merged(total[r * EACH + e], sum, by);
		else
			splits[at + 2 + d] = sum;
	}
	if (!WHOLE && takes && id == 0) {
		splits[at] = part.top;
		splits[at + 1] = part.sum;
	}
}

// attend lets tokens from…end of the tile, which are of one sequence, attend.
void attend(uint from, uint end, uint firstSplit) {
	barrier();
	if (id < QUERIES) {
		uint t = id / HEADS;
		limits[id] = exists(id) && t >= from && t < end ? int(position(tokenOf(id))) : -1;
	}
	barrier();
	int last = -1;
	for (uint r = 0; r < QUERIES; r++)
		last = max(last, limits[r]);
	uint sequence_ = sequence(firstToken + from);
	for (uint split = firstSplit; int(split * SPLIT) <= last; split++) {
		barrier();
		score(sequence_, split * SPLIT, last);
		vec2 sums[QUERIES];
		values(sequence_, split * SPLIT, last, sums);
		[[unroll]] for (uint r = 0; r < QUERIES; r++)
			take(r, sums[r], split);
		if (!WHOLE)
			break;
	}
}

void main() {
	uint group = push.heads / push.kvHeads, blocks = (group + HEADS - 1) / HEADS;
	kvHead = gl_WorkGroupID.y / blocks;
	firstHead = kvHead * group + gl_WorkGroupID.y % blocks * HEADS;
	firstToken = gl_WorkGroupID.x * TOKENS;
	for (uint i = id; i < QUERIES * PAIRS; i += LOCAL) {
		uint r = i / PAIRS, at = (tokenOf(r) * push.heads + headOf(r)) * DIM + i % PAIRS * 2;
		queries[i] = exists(r) ? vec2(q[at], q[at + 1]) : vec2(0);
	}
	[[unroll]] for (uint i = 0; i < QUERIES * EACH; i++)
		total[i] = 0;

	// Tokens of one sequence attend together; if the tile holds several, one after the other.
	uint tokens = min(TOKENS, push.tokens - firstToken);
	bool together = true;
	for (uint t = 1; t < tokens; t++)
		together = together && sequence(firstToken + t) == sequence(firstToken);
	if (together)
		attend(0, tokens, WHOLE ? 0 : gl_WorkGroupID.z);
	else
		for (uint t = 0; t < tokens; t++)
			attend(t, t + 1, WHOLE ? 0 : gl_WorkGroupID.z);

	if (!WHOLE)
		return;
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		[[unroll]] for (uint e = 0; e < EACH; e++) {
			uint d = id + e * LOCAL;
			if (d < DIM && exists(r))
				result[(tokenOf(r) * push.heads + headOf(r)) * DIM + d] = total[r * EACH + e] / totals[r].sum;
		}
}
