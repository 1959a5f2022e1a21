// Attention with an online softmax over a cache in pages: QUERIES rows of q that share a KV head, HEADS query heads for
// each of QUERIES/HEADS tokens. With WHOLE a workgroup attends to all positions, split after split, and writes the output;
// otherwise workgroups share the splits, and leave their parts of the softmax for combine.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attention.glsl"
#include "kv.glsl"

layout(constant_id = 2) const uint KEY = 128; // of a head; even
layout(constant_id = 3) const uint QUERIES = 8;
layout(constant_id = 4) const uint HEADS = 8;
layout(constant_id = 5) const bool WHOLE = false;
layout(constant_id = 6) const uint DIM = 128; // of a head's value; even
layout(constant_id = 7) const bool SINKS = false;
layout(constant_id = 8) const uint KEY_TYPE = KV_F16;
layout(constant_id = 9) const uint VALUE_TYPE = KV_F16;
layout(constant_id = 10) const bool SLOPES = false;
layout(constant_id = 11) const bool LATER = false;
layout(constant_id = 12) const bool WITHIN = false; // a value is the first elements of its key
layout(constant_id = 13) const bool PICKED = false; // a workgroup has one token, which sees what a list names

layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1, std430) readonly buffer K { uint k[]; }; // words of elements [pages, kv_heads, words, 64], and scales; kv.go has the layout
layout(set = 0, binding = 1, std430) readonly buffer KeyScales { uint16_t keyScales[]; };
layout(set = 0, binding = 2, std430) readonly buffer V { uint v[]; }; // [pages, kv_heads, 64, words], and scales
layout(set = 0, binding = 2, std430) readonly buffer ValueScales { uint16_t valueScales[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Splits { float splits[]; }; // [n, heads, maxSplits, DIM + 2]

layout(set = 0, binding = 6, std430) readonly buffer Sinks { float sinks[]; }; // [heads]
layout(set = 0, binding = 7, std430) readonly buffer Slopes { float falls[]; }; // [heads]
layout(set = 0, binding = 8, std430) readonly buffer Lists { float lists[]; };

layout(push_constant) uniform Push {
	uint tokens;    // the last of them, and one
	uint heads;     // of q
	uint kvHeads;
	uint maxSplits;
	float scale;
	uint room, outs;
	uint window;   // positions that a token sees; 0: all
	float softCap; // 0: none
	uint near;     // 1: the layer is one of those with windows; else 0
	uint first;    // of the tokens
	uint groups, list, block; // with PICKED: lists of a token, their elements, and positions of a block
} push;
#define PARAMS 5
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "seen.glsl"
#include "picked.glsl"

#include "pairs.glsl"

const uint PAGE = 64, KEYS = KEY / 2, PAIRS = DIM / 2; // pairs of a key, of a value
const uint TOKENS = QUERIES / HEADS;
const uint LOCAL = SPLIT;            // an invocation for every position
const uint SLICES = PAIRS > LOCAL ? 1 : LOCAL / PAIRS; // of the positions, when values are summed: an invocation for every pair and slice, or some pairs of the only one
const uint SLICE = (SPLIT + SLICES - 1) / SLICES;
const uint TURNS = (PAIRS + LOCAL - 1) / LOCAL; // pairs of an invocation, LOCAL apart
const uint EACH = (DIM + LOCAL - 1) / LOCAL; // elements of an output that an invocation keeps
const uint QUADS = (QUERIES + 3) / 4; // rows of q, four to a vector
const uint HELD = QUADS * TURNS; // sums of an invocation, each of four rows
const uint AHEAD = 4; // positions whose values an invocation loads at a time

// valuePair is pair j of the value at slot.
vec2 valuePair(uint block, uint slot, uint j) {
	if (WITHIN)
		return keyPair(block, slot, j);
	uint words = kvWords(VALUE_TYPE, DIM), base = block * kvHeadWords(VALUE_TYPE, DIM), at = base + slot * words + wordOf(VALUE_TYPE, j);
	float scale = VALUE_TYPE >= KV_Q8_0 ? unpackHalf2x16(uint(valueScales[2 * (base + 64 * words) + slot * (DIM / 32) + j / 16])).x : 1;
	return pairOf(VALUE_TYPE, v[at], VALUE_TYPE == KV_F32 ? v[at + 1] : 0, inWord(VALUE_TYPE, j), scale);
}

shared vec4 queries[KEYS * 2 * QUADS]; // by element
shared vec4 scores[SPLIT * QUADS];      // by position
shared vec4 chunks[SPLIT / 4 * QUADS]; // scores, while they are reduced
shared vec4 slices[SLICES * DIM];
shared vec4 tops[QUADS], sums[QUADS]; // parts of the rows
shared ivec4 limits[QUADS];           // the last position that a row attends to; -1 where it takes no part
shared ivec4 starts[QUADS];           // the first
shared vec4 places[QUADS], fallings[QUADS]; // a row's own position, and by what its scores fall with the distance
shared uint blocks[SPLIT / PAGE]; // the head's blocks of the split's pages
shared uint places_[PICKED ? SPLIT : 1]; // of the split's positions: the head's block, times PAGE, and the slot

uint id = gl_LocalInvocationID.x;

// Where the workgroup works.
uint kvHead, firstHead, firstToken;

uint tokenOf(uint row) { return firstToken + row / HEADS; }
uint headOf(uint row) { return firstHead + row % HEADS; }
bool exists(uint row) { return tokenOf(row) < push.tokens && headOf(row) < (kvHead + 1) * (push.heads / push.kvHeads); }

// splitAt is where the part of a row and split lies that combine.comp takes.
uint splitAt(uint row, uint split) {
	return ((tokenOf(row) * push.heads + headOf(row)) * push.maxSplits + split) * (DIM + 2);
}

// four is the sum, or the largest, of four rows' scores at four positions.
vec4 four(bool added, vec4 a, vec4 b, vec4 c, vec4 d) {
	precise vec4 r = added ? (a + b) + (c + d) : max(max(a, b), max(c, d));
	return r;
}

// reduce gives tops the rows' largest score, or sums their sum: of 256 positions, then of 64, 16 and 4.
void reduce(bool added) {
	uint n = SPLIT / 4 * QUADS;
	if (id < n)
		chunks[id] = four(added, scores[id], scores[id + n], scores[id + 2 * n], scores[id + 3 * n]);
	barrier();
	[[dont_unroll]] for (n /= 4; n >= QUADS; n /= 4) {
		if (id < n)
			chunks[id] = four(added, chunks[id], chunks[id + n], chunks[id + 2 * n], chunks[id + 3 * n]);
		barrier();
	}
	if (id < QUADS) {
		if (added)
			sums[id] = chunks[id];
		else
			tops[id] = chunks[id];
	}
	barrier();
}

const float NOTHING = -3.4e38; // less than any score

// lastOf and firstOf are the ends of what a row attends to: of positions, or with PICKED of places in its list.
int lastOf(uint row) {
	return PICKED ? pickedLen(listOf(row, kvHead * push.groups / push.kvHeads, push.groups, push.list), push.list, push.block, int(position(row))) - 1 : lastSeen(row, push.window, LATER);
}
int firstOf(uint row) { return PICKED ? 0 : firstSeen(row, push.window, LATER); }

// place is where number i of a split's positions lies: the head's block, and the slot.
uvec2 place(uint i) { return PICKED ? uvec2(places_[i] / PAGE, places_[i] % PAGE) : uvec2(blocks[i / PAGE], i % PAGE); }

// sees is which of four rows attend to a position.
bvec4 sees(uint quad, int position) {
	bvec4 before = lessThanEqual(ivec4(position), limits[quad]), after = greaterThanEqual(ivec4(position), starts[quad]);
	return bvec4(before.x && after.x, before.y && after.y, before.z && after.z, before.w && after.w);
}

// score fills scores with the exponentials of a split's positions, and parts.
void score(uint sequence, uint from, int begin, int last) {
	if (PICKED) {
		if (int(from + id) <= last) {
			int at = picked(listOf(firstToken, kvHead * push.groups / push.kvHeads, push.groups, push.list), push.block, from + id, int(position(firstToken)));
			places_[id] = (page(sequence, uint(at) / PAGE, push.near) * push.kvHeads + kvHead) * PAGE + uint(at) % PAGE;
		}
	} else if (id < SPLIT / PAGE && int(from + id * PAGE) <= last)
		blocks[id] = page(sequence, from / PAGE + id, push.near) * push.kvHeads + kvHead;
	barrier();
	int position = int(from + id);
	vec4 s[QUADS];
	[[unroll]] for (uint i = 0; i < QUADS; i++)
		s[i] = vec4(0);
	if (position >= begin && position <= last) {
		uvec2 at = place(id);
		for (uint j = 0; j < KEYS; j++) {
			vec2 key = keyPair(at.x, at.y, j);
			[[unroll]] for (uint i = 0; i < QUADS; i++) {
				precise vec4 sum = fma(queries[2 * j * QUADS + i], key.xxxx, s[i]);
				sum = fma(queries[(2 * j + 1) * QUADS + i], key.yyyy, sum);
				s[i] = sum;
			}
		}
	}
	[[unroll]] for (uint i = 0; i < QUADS; i++) {
		precise vec4 score = s[i] * push.scale;
		if (push.softCap > 0) { // cap·tanh(score/cap)
			precise vec4 capped = push.softCap * (1.0 - 2.0 / (1.0 + exp(min(2.0 * score / push.softCap, vec4(80)))));
			score = capped;
		}
		if (SLOPES) {
			precise vec4 fallen = fma(-fallings[i], abs(places[i] - float(position)), score);
			score = fallen;
		}
		s[i] = mix(vec4(NOTHING), score, sees(i, position));
		scores[id * QUADS + i] = s[i];
	}
	barrier();
	reduce(false);
	[[unroll]] for (uint i = 0; i < QUADS; i++)
		scores[id * QUADS + i] = mix(vec4(0), exp(s[i] - tops[i]), sees(i, position));
	barrier();
	reduce(true);
}

// values are the sums of a split's values, weighted with scores. An invocation has the pair id%PAIRS of slice id/PAIRS, or, of wide values, which are all of
// one slice, each pair id+turn·LOCAL.
void values(uint from, int begin, int last, out vec4 even[HELD], out vec4 odd[HELD]) {
	[[unroll]] for (uint i = 0; i < HELD; i++)
		even[i] = odd[i] = vec4(0);
	[[unroll]] for (uint turn = 0; turn < TURNS; turn++) {
		uint pair = TURNS > 1 ? id + turn * LOCAL : id % PAIRS, slice = TURNS > 1 ? 0 : id / PAIRS;
		uint end = slice < SLICES && pair < PAIRS ? min(min((slice + 1) * SLICE, SPLIT), uint(last + 1) - from) : 0;
		uint skipped = uint(max(begin - int(from), 0)); // values that nobody sees may be anything
		for (uint first = max(slice * SLICE, skipped); first < end; first += AHEAD) {
			vec2 value[AHEAD];
			[[unroll]] for (uint j = 0; j < AHEAD; j++) {
				uint p = min(first + j, end - 1);
				uvec2 at = place(p);
				value[j] = valuePair(at.x, at.y, pair);
			}
			[[unroll]] for (uint j = 0; j < AHEAD; j++) {
				if (first + j >= end)
					break;
				[[unroll]] for (uint i = 0; i < QUADS; i++) {
					vec4 w = scores[(first + j) * QUADS + i];
					precise vec4 x = fma(w, value[j].xxxx, even[turn * QUADS + i]), y = fma(w, value[j].yyyy, odd[turn * QUADS + i]);
					even[turn * QUADS + i] = x;
					odd[turn * QUADS + i] = y;
				}
			}
		}
	}
}

vec4 total[QUADS * EACH]; // by elements id, id+LOCAL…
Part totals[4 * QUADS];

// take adds the split's part of four rows, or leaves it to combine.comp. even and odd are of one slice; slices are added in order.
void take(uint quad, vec4 even[HELD], vec4 odd[HELD], uint split) {
	barrier();
	[[unroll]] for (uint turn = 0; turn < TURNS; turn++) {
		uint at = id + turn * LOCAL;
		if (at < SLICES * PAIRS) {
			slices[2 * at] = even[turn * QUADS + quad];
			slices[2 * at + 1] = odd[turn * QUADS + quad];
		}
	}
	barrier();
	bvec4 reaches = greaterThanEqual(limits[quad], ivec4(split * SPLIT)), begins = lessThan(starts[quad], ivec4((split + 1) * SPLIT));
	vec4 old = vec4(1), new = vec4(0); // by what values are multiplied
	[[unroll]] for (uint j = 0; j < 4; j++) {
		if (!(reaches[j] && begins[j]))
			continue;
		Part part = Part(tops[quad][j], sums[quad][j]);
		if (WHOLE) {
			vec2 by = merge(totals[4 * quad + j], part, split == uint(starts[quad][j]) / SPLIT);
			old[j] = by.x;
			new[j] = by.y;
		} else if (id == 0) {
			uint at = splitAt(4 * quad + j, split);
			splits[at] = part.top;
			splits[at + 1] = part.sum;
		}
	}
	[[unroll]] for (uint e = 0; e < EACH; e++) {
		uint d = id + e * LOCAL;
		if (d >= DIM)
			continue;
		precise vec4 sum = slices[d];
		for (uint s = 1; s < SLICES; s++)
			sum += slices[s * DIM + d];
		if (WHOLE) {
			precise vec4 added = fma(total[quad * EACH + e], old, sum * new);
			total[quad * EACH + e] = added;
			continue;
		}
		[[unroll]] for (uint j = 0; j < 4; j++)
			if (reaches[j] && begins[j])
				splits[splitAt(4 * quad + j, split) + 2 + d] = sum[j];
	}
}

// attend lets tokens from…end of the tile, which are of one sequence, attend.
void attend(uint from, uint end, uint firstSplit) {
	barrier();
	if (id < 4 * QUADS) {
		uint t = id / HEADS;
		bool takesPart = id < QUERIES && exists(id) && !padding(tokenOf(id)) && t >= from && t < end;
		limits[id / 4][id % 4] = takesPart ? lastOf(tokenOf(id)) : -1;
		starts[id / 4][id % 4] = takesPart ? firstOf(tokenOf(id)) : 0;
		if (SLOPES) {
			places[id / 4][id % 4] = takesPart ? float(position(tokenOf(id))) : 0;
			fallings[id / 4][id % 4] = takesPart ? falls[headOf(id)] : 0;
		}
	}
	barrier();
	int last = -1, begin = 0x7fffffff;
	for (uint i = 0; i < QUADS; i++)
		[[unroll]] for (uint j = 0; j < 4; j++) {
			last = max(last, limits[i][j]);
			if (limits[i][j] >= 0)
				begin = min(begin, starts[i][j]);
		}
	uint sequence_ = sequence(firstToken + from);
	for (uint split = firstSplit; int(split * SPLIT) <= last; split += WHOLE ? 1 : gl_NumWorkGroups.z) {
		if (int((split + 1) * SPLIT) <= begin)
			continue;
		barrier();
		score(sequence_, split * SPLIT, begin, last);
		vec4 even[HELD], odd[HELD];
		values(split * SPLIT, begin, last, even, odd);
		[[unroll]] for (uint i = 0; i < QUADS; i++)
			take(i, even, odd, split);
	}
}

void main() {
	uint group = push.heads / push.kvHeads, tiles = (group + HEADS - 1) / HEADS;
	kvHead = gl_WorkGroupID.y / tiles;
	firstHead = kvHead * group + gl_WorkGroupID.y % tiles * HEADS;
	firstToken = push.first + gl_WorkGroupID.x * TOKENS;
	if (!WHOLE && (padding(firstToken) || int(gl_WorkGroupID.z * SPLIT) > lastOf(firstToken))) // it has one token
		return;
	for (uint i = id; i < 4 * QUADS * KEY; i += LOCAL) {
		uint r = i / KEY, d = i % KEY;
		queries[d * QUADS + r / 4][r % 4] = r < QUERIES && exists(r) ? q[(tokenOf(r) * push.heads + headOf(r)) * KEY + d] : 0;
	}
	[[unroll]] for (uint i = 0; i < QUADS * EACH; i++)
		total[i] = vec4(0);

	// Tokens of one sequence attend together; if the tile holds several, one after the other.
	uint tokens = min(TOKENS, push.tokens - firstToken);
	bool together = true;
	for (uint t = 1; t < tokens; t++)
		together = together && sequence(firstToken + t) == sequence(firstToken);
	uint step = together ? tokens : 1;
	[[dont_unroll]] for (uint t = 0; t < tokens; t += step)
		attend(t, t + step, WHOLE ? 0 : gl_WorkGroupID.z);

	if (!WHOLE)
		return;
	[[unroll]] for (uint r = 0; r < QUERIES; r++)
		[[unroll]] for (uint e = 0; e < EACH; e++) {
			uint d = id + e * LOCAL;
			precise float quotient = total[r / 4 * EACH + e][r % 4] / totals[r].sum;
			if (SINKS && exists(r)) {
				precise float product = total[r / 4 * EACH + e][r % 4] * withSink(totals[r], sinks[headOf(r)]);
				quotient = product;
			}
			if (exists(r) && padding(tokenOf(r)))
				quotient = 0;
			if (d < DIM && exists(r))
				result[(tokenOf(r) * push.heads + headOf(r)) * DIM + d] = quotient;
		}
}
