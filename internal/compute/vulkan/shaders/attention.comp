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
const uint QUADS = (QUERIES + 3) / 4; // rows of q, four to a vector
const uint AHEAD = 4; // positions whose values an invocation loads at a time

shared vec4 queries[PAIRS * 2 * QUADS]; // by element
shared vec4 scores[SPLIT * QUADS];      // by position
shared float chunks[QUERIES * CHUNKS];
shared vec2 slices[SLICES * PAIRS];
shared Part parts[QUERIES];
shared int limits[QUERIES]; // the last position that a row attends to; -1 where it takes no part
shared uint blocks[SPLIT / PAGE]; // where the head's keys or values of the split's pages begin

uint id = gl_LocalInvocationID.x;

// Where the workgroup works.
uint kvHead, firstHead, firstToken;

uint tokenOf(uint row) { return firstToken + row / HEADS; }
uint headOf(uint row) { return firstHead + row % HEADS; }
bool exists(uint row) { return tokenOf(row) < push.tokens && headOf(row) < (kvHead + 1) * (push.heads / push.kvHeads); }

// reduce gives chunks their largest score, or their sum, and parts the rows'.
void reduce(bool sums) {
	for (uint i = id; i < QUERIES * CHUNKS; i += LOCAL) {
		uint row = i / CHUNKS, at = i % CHUNKS * QUADS + row / 4;
		precise float r = scores[at][row % 4];
		for (uint j = 1; j < CHUNK; j++) {
			float s = scores[at + j * CHUNKS * QUADS][row % 4];
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
	if (id < SPLIT / PAGE && int(from + id * PAGE) <= last)
		blocks[id] = (page(sequence, from / PAGE + id) * push.kvHeads + kvHead) * PAGE * PAIRS;
	barrier();
	int position = int(from + id);
	vec4 s[QUADS];
	[[unroll]] for (uint i = 0; i < QUADS; i++)
		s[i] = vec4(0);
	if (position <= last) {
		uint at = blocks[id / PAGE] + id % PAGE;
		for (uint j = 0; j < PAIRS; j++) {
			vec2 key = unpackHalf2x16(k[at + j * PAGE]);
			[[unroll]] for (uint i = 0; i < QUADS; i++) {
				precise vec4 sum = fma(queries[2 * j * QUADS + i], key.xxxx, s[i]);
				sum = fma(queries[(2 * j + 1) * QUADS + i], key.yyyy, sum);
				s[i] = sum;
			}
		}
	}
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		{
		precise float score = s[r / 4][r % 4] * push.scale;
		s[r / 4][r % 4] = position <= limits[r] ? score : NOTHING;
	}
	[[unroll]] for (uint i = 0; i < QUADS; i++)
		scores[id * QUADS + i] = s[i];
	barrier();
	reduce(false);
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		s[r / 4][r % 4] = position <= limits[r] ? exp(s[r / 4][r % 4] - parts[r].top) : 0;
	[[unroll]] for (uint i = 0; i < QUADS; i++)
		scores[id * QUADS + i] = s[i];
	barrier();
	reduce(true);
}

// values are the sums of a split's values, weighted with scores. An invocation has the pair id%PAIRS of slice id/PAIRS.
void values(uint from, int last, out vec4 even[QUADS], out vec4 odd[QUADS]) {
	uint pair = id % PAIRS, slice = id / PAIRS;
	[[unroll]] for (uint i = 0; i < QUADS; i++)
		even[i] = odd[i] = vec4(0);
	uint end = slice < SLICES ? min(min((slice + 1) * SLICE, SPLIT), uint(last + 1) - from) : 0;
	for (uint first = slice * SLICE; first < end; first += AHEAD) {
		vec2 value[AHEAD];
		[[unroll]] for (uint j = 0; j < AHEAD; j++) {
			uint p = min(first + j, end - 1);
			value[j] = unpackHalf2x16(v[blocks[p / PAGE] + p % PAGE * PAIRS + pair]);
		}
		[[unroll]] for (uint j = 0; j < AHEAD; j++) {
			if (first + j >= end)
				break;
			[[unroll]] for (uint i = 0; i < QUADS; i++) {
				vec4 w = scores[(first + j) * QUADS + i];
				precise vec4 x = fma(w, value[j].xxxx, even[i]), y = fma(w, value[j].yyyy, odd[i]);
				even[i] = x;
				odd[i] = y;
			}
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
		vec4 even[QUADS], odd[QUADS];
		values(split * SPLIT, last, even, odd);
		[[unroll]] for (uint r = 0; r < QUERIES; r++)
			take(r, vec2(even[r / 4][r % 4], odd[r / 4][r % 4]), split);
		if (!WHOLE)
			break;
	}
}

void main() {
	uint group = push.heads / push.kvHeads, tiles = (group + HEADS - 1) / HEADS;
	kvHead = gl_WorkGroupID.y / tiles;
	firstHead = kvHead * group + gl_WorkGroupID.y % tiles * HEADS;
	firstToken = gl_WorkGroupID.x * TOKENS;
	for (uint i = id; i < 4 * QUADS * DIM; i += LOCAL) {
		uint r = i / DIM, d = i % DIM;
		queries[d * QUADS + r / 4][r % 4] = r < QUERIES && exists(r) ? q[(tokenOf(r) * push.heads + headOf(r)) * DIM + d] : 0;
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
			precise float quotient = total[r * EACH + e] / totals[r].sum;
			if (d < DIM && exists(r))
				result[(tokenOf(r) * push.heads + headOf(r)) * DIM + d] = quotient;
		}
}
