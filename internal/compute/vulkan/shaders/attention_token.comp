// Attention of single tokens of running sequences: a workgroup attends with SHARE query heads of one token, which share a KV head, to
// a chunk of the positions that the token sees, TILE of them at a time. Chunks follow from the token's own place alone. The workgroup
// that is the last of a token's to finish puts their parts together, and with PACK writes the result in eight bits besides.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PACKED 7
#include "packing.glsl"
#include "kv.glsl"

layout(constant_id = 2) const uint KEY = 128; // elements of a head's key
layout(constant_id = 3) const uint DIM = 128; // of its value; a multiple of 8
layout(constant_id = 4) const uint SHARE = 4; // query heads
layout(constant_id = 5) const uint TILE = 128; // positions; a multiple of a page, or a part of one
layout(constant_id = 6) const uint KEY_TYPE = KV_F16;
layout(constant_id = 7) const uint VALUE_TYPE = KV_F16;
layout(constant_id = 8) const bool SINKS = false;
layout(constant_id = 9) const bool SLOPES = false;
layout(constant_id = 10) const bool LATER = false;
layout(constant_id = 11) const bool PACK = false; // DIM is a multiple of 32

layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1, std430) readonly buffer K { uvec4 keyQuads[]; }; // kv.go has the layout
layout(set = 0, binding = 1, std430) readonly buffer KeyScales { uvec2 keyScales[]; };
layout(set = 0, binding = 2, std430) readonly buffer V { uint valueWords[]; };
layout(set = 0, binding = 2, std430) readonly buffer VPairs { uvec2 valuePairs[]; };
layout(set = 0, binding = 2, std430) readonly buffer VQuads { uvec4 valueQuads[]; };
layout(set = 0, binding = 2, std430) readonly buffer ValueScales { uint16_t valueScales[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 4, std430) coherent buffer Parts { vec4 parts[]; }; // [tokens, heads, chunks, 1 + DIM/4]: the largest score and the sum of exponentials, and values
layout(set = 0, binding = 6, std430) coherent buffer Done { uint done[]; }; // [tokens, workgroups of a token]: finished ones, 0 between dispatches
layout(set = 0, binding = 8, std430) readonly buffer Sinks { float sinks[]; };  // [heads]
layout(set = 0, binding = 9, std430) readonly buffer Slopes { float falls[]; }; // [heads]

layout(push_constant) uniform Push {
	uint first;     // token of the workgroups in row 0
	uint heads;     // of q
	uint kvHeads;
	uint chunks;    // at most
	float scale;
	uint room, outs;
	uint window;   // positions that a token sees; 0: all
	float softCap; // 0: none
	uint near;     // 1: the layer is one of those with windows; else 0
	uint scales;   // where packed scales begin
} push;
#define PARAMS 5
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "seen.glsl"

const uint LOCAL = gl_WorkGroupSize.x;
layout(constant_id = 12) const uint CHUNKS = 64; // of a token's positions, at most

const uint PAGE = 64;
const uint AHEAD = 8; // words of keys, or eights of a value, that an invocation loads at a time

// When scores are summed an invocation has four positions and every SLICES-th word of their keys.
const uint QUADS = TILE / 4, SLICES = LOCAL / QUADS, WORDS = KV_WORDS(KEY_TYPE, KEY), WORDS_EACH = (WORDS + SLICES - 1) / SLICES;
const uint SCALES = KEY_TYPE >= KV_Q8_0 ? 1 : 0;

// When values are summed it has eight elements of every VALUE_SLICES-th position.
const uint EIGHTS = DIM / 8, VALUE_SLICES = LOCAL / EIGHTS, VALUES_EACH = (TILE + VALUE_SLICES - 1) / VALUE_SLICES;
const uint FIRST_VALUES = VALUES_EACH < AHEAD ? VALUES_EACH : AHEAD; // that are loaded before scores are there
const uint TOGETHER = (SHARE + 1) / 2; // heads whose slices are added at a time

const uint ROUNDS = (SHARE * TILE + LOCAL - 1) / LOCAL; // of an invocation with one position and head each

shared float queries[KEY * SHARE]; // by element
const uint SCORE_ROOM = SLICES * SHARE * TILE, VALUE_ROOM = VALUE_SLICES * DIM * TOGETHER, CHUNK_ROOM = SHARE * CHUNKS;
const uint MOST_ROOM = SCORE_ROOM > VALUE_ROOM ? SCORE_ROOM : VALUE_ROOM;
shared float room_[MOST_ROOM > CHUNK_ROOM ? MOST_ROOM : CHUNK_ROOM];
shared float weights[TILE * SHARE]; // of positions
shared float tops[SHARE * TILE / 4], sums[SHARE * TILE / 4]; // of subgroups
shared vec4 last_[SHARE * DIM / 4]; // the result
shared uint finished;

uint id = gl_LocalInvocationID.x;
uint kvHead, firstHead, heads, token_; // where the workgroup works, with so many heads
int begin, end_;                       // the first and the last position that it sees

const float NOTHING = -3.4e38; // less than any score

uint blockOf(uint seq, int position) { return page(seq, uint(position) / PAGE, push.near) * push.kvHeads + kvHead; }

// score adds what a word of four positions' keys gives.
void score(inout vec4 s[SHARE], uint e, vec4 key) {
	[[unroll]] for (uint r = 0; r < SHARE; r++)
		s[r] = fma(vec4(queries[e * SHARE + r]), key, s[r]);
}

vec4 byteOf(uvec4 word, int j) { return vec4(bitfieldExtract(ivec4(word), 8 * j, 8)); }
vec4 nibbleOf(uvec4 word, int j) { return vec4(ivec4(bitfieldExtract(word, 4 * j, 4)) - 8); }

void scoreWord(inout vec4 s[SHARE], uint w, uvec4 word, vec4 scale) {
	switch (KEY_TYPE) {
	case KV_F16: {
		vec2 a = unpackHalf2x16(word.x), b = unpackHalf2x16(word.y), c = unpackHalf2x16(word.z), d = unpackHalf2x16(word.w);
		score(s, 2 * w, vec4(a.x, b.x, c.x, d.x));
		score(s, 2 * w + 1, vec4(a.y, b.y, c.y, d.y));
		return;
	}
	case KV_BF16:
		score(s, 2 * w, uintBitsToFloat(word << 16));
		score(s, 2 * w + 1, uintBitsToFloat(word & 0xffff0000u));
		return;
	case KV_F32:
		score(s, w, uintBitsToFloat(word));
		return;
	case KV_Q8_0:
		[[unroll]] for (int j = 0; j < 4; j++)
			score(s, 4 * w + j, byteOf(word, j) * scale);
		return;
	}
	[[unroll]] for (int j = 0; j < 4; j++) {
		score(s, w / 4 * 32 + w % 4 * 4 + j, nibbleOf(word, 2 * j) * scale);
		score(s, w / 4 * 32 + 16 + w % 4 * 4 + j, nibbleOf(word, 2 * j + 1) * scale);
	}
}

// scores leaves in room_ what this invocation's words give its four positions from position from on.
void scores(uint seq, int from) {
	uint quad = id % QUADS, slice = id / QUADS;
	int position = from + int(4 * quad);
	vec4 s[SHARE];
	[[unroll]] for (uint r = 0; r < SHARE; r++)
		s[r] = vec4(0);
	if (slice < SLICES && position <= end_ && position + 3 >= begin) {
		uint base = blockOf(seq, position) * kvHeadWords(KEY_TYPE, KEY), slot = uint(position) % PAGE / 4;
		[[unroll]] for (uint first = 0; first < WORDS_EACH; first += AHEAD) {
			uvec4 words[AHEAD];
			uvec2 scales[AHEAD];
			[[unroll]] for (uint i = 0; i < AHEAD; i++) {
				uint w = min(slice + SLICES * (first + i), WORDS - 1);
				words[i] = keyQuads[base / 4 + w * (PAGE / 4) + slot];
				if (SCALES > 0)
					scales[i] = keyScales[(base + PAGE * WORDS) / 2 + w / (WORDS / (KEY / 32)) * (PAGE / 4) + slot];
			}
			[[unroll]] for (uint i = 0; i < AHEAD; i++) {
				uint w = slice + SLICES * (first + i);
				if (first + i < WORDS_EACH && w < WORDS)
					scoreWord(s, w, words[i], SCALES > 0 ? vec4(unpackHalf2x16(scales[i].x), unpackHalf2x16(scales[i].y)) : vec4(1));
			}
		}
	}
	if (slice < SLICES)
		[[unroll]] for (uint r = 0; r < SHARE; r++)
			[[unroll]] for (uint i = 0; i < 4; i++)
				room_[(slice * SHARE + r) * TILE + 4 * quad + i] = s[r][i];
}

// Eight elements of a value as they lie in memory.
struct Eight {
	uvec4 low, high;
	float scale;
};

Eight load(uint base, uint slot, uint g) {
	const uint words = KV_WORDS(VALUE_TYPE, DIM);
	uint at = base + slot * words;
	Eight v = Eight(uvec4(0), uvec4(0), 1);
	switch (VALUE_TYPE) {
	case KV_F16:
	case KV_BF16:
		v.low = valueQuads[at / 4 + g];
		return v;
	case KV_F32:
		v.low = valueQuads[at / 4 + 2 * g];
		v.high = valueQuads[at / 4 + 2 * g + 1];
		return v;
	case KV_Q8_0:
		v.low.xy = valuePairs[at / 2 + g];
		break;
	case KV_Q4_0:
		v.low.xy = valuePairs[at / 2 + g / 4 * 2 + g % 2] >> g % 4 / 2 * 4;
		break;
	}
	v.scale = unpackHalf2x16(uint(valueScales[2 * (base + PAGE * words) + slot * (DIM / 32) + g / 4])).x;
	return v;
}

void elements(Eight v, out float f[8]) {
	[[unroll]] for (uint j = 0; j < 8; j++) {
		switch (VALUE_TYPE) {
		case KV_F16:
			f[j] = unpackHalf2x16(v.low[j / 2])[j % 2];
			break;
		case KV_BF16:
			f[j] = uintBitsToFloat(j % 2 == 0 ? v.low[j / 2] << 16 : v.low[j / 2] & 0xffff0000u);
			break;
		case KV_F32:
			f[j] = uintBitsToFloat(j < 4 ? v.low[j % 4] : v.high[j % 4]);
			break;
		case KV_Q8_0:
			f[j] = float(bitfieldExtract(int(v.low[j / 4]), int(j % 4 * 8), 8)) * v.scale;
			break;
		default:
			f[j] = float(int(bitfieldExtract(v.low[j / 4], int(j % 4 * 8), 4)) - 8) * v.scale;
		}
	}
}

// value loads this invocation's eight elements of number i of its positions from position from on; nothing where nobody sees it, for there may be anything.
Eight value(uint seq, int from, uint i) {
	uint p = id / EIGHTS + VALUE_SLICES * i;
	int position = from + int(p);
	if (id / EIGHTS >= VALUE_SLICES || p >= TILE || position < begin || position > end_)
		return Eight(uvec4(0), uvec4(0), 0);
	return load(blockOf(seq, position) * kvHeadWords(VALUE_TYPE, DIM), uint(position) % PAGE, id % EIGHTS);
}

float acc[SHARE * 8]; // sums of values
float top[SHARE], sum[SHARE];

void add(Eight v, uint i) {
	uint p = min(id / EIGHTS + VALUE_SLICES * i, TILE - 1);
	float f[8];
	elements(v, f);
	[[unroll]] for (uint r = 0; r < SHARE; r++) {
		float w = weights[p * SHARE + r];
		[[unroll]] for (uint j = 0; j < 8; j++)
			acc[8 * r + j] = fma(w, f[j], acc[8 * r + j]);
	}
}

// tile attends to TILE positions from position from on.
void tile(uint seq, int from) {
	Eight v[FIRST_VALUES];
	[[unroll]] for (uint i = 0; i < FIRST_VALUES; i++)
		v[i] = value(seq, from, i);
	scores(seq, from);
	barrier();
	float own[ROUNDS];
	[[unroll]] for (uint i = 0; i < ROUNDS; i++) {
		uint j = id + i * LOCAL, r = j / TILE;
		if (j >= SHARE * TILE)
			continue;
		float s = room_[j];
		[[unroll]] for (uint slice = 1; slice < SLICES; slice++)
			s += room_[slice * SHARE * TILE + j];
		s *= push.scale;
		int at = from + int(j % TILE);
		if (push.softCap > 0) // cap·tanh(score/cap)
			s = push.softCap * (1.0 - 2.0 / (1.0 + exp(min(2.0 * s / push.softCap, 80.0))));
		if (SLOPES)
			s = fma(-falls[min(firstHead + r, push.heads - 1)], abs(float(int(position(token_)) - at)), s);
		own[i] = at >= begin && at <= end_ ? s : NOTHING;
		float most = subgroupMax(own[i]);
		if (subgroupElect())
			tops[i * gl_NumSubgroups + gl_SubgroupID] = most;
	}
	barrier();
	const uint PER = TILE / gl_SubgroupSize;
	float old[SHARE];
	[[unroll]] for (uint r = 0; r < SHARE; r++) {
		float most = top[r];
		for (uint i = 0; i < PER; i++)
			most = max(most, tops[r * PER + i]);
		old[r] = exp(top[r] - most);
		top[r] = most;
	}
	[[unroll]] for (uint i = 0; i < ROUNDS; i++) {
		uint j = id + i * LOCAL, r = j / TILE;
		if (j >= SHARE * TILE)
			continue;
		float most = top[0];
		[[unroll]] for (uint h = 1; h < SHARE; h++)
			most = r == h ? top[h] : most;
		float w = own[i] == NOTHING ? 0 : exp(own[i] - most);
		weights[j % TILE * SHARE + r] = w;
		float s = subgroupAdd(w);
		if (subgroupElect())
			sums[i * gl_NumSubgroups + gl_SubgroupID] = s;
	}
	barrier();
	[[unroll]] for (uint r = 0; r < SHARE; r++) {
		sum[r] *= old[r];
		for (uint i = 0; i < PER; i++)
			sum[r] += sums[r * PER + i];
		[[unroll]] for (uint j = 0; j < 8; j++)
			acc[8 * r + j] *= old[r];
	}
	[[unroll]] for (uint i = 0; i < FIRST_VALUES; i++)
		add(v[i], i);
	for (uint first = FIRST_VALUES; first < VALUES_EACH; first += AHEAD) {
		Eight more[AHEAD];
		[[unroll]] for (uint i = 0; i < AHEAD; i++)
			more[i] = value(seq, from, first + i);
		[[unroll]] for (uint i = 0; i < AHEAD; i++)
			if (first + i < VALUES_EACH)
				add(more[i], first + i);
	}
}

uint headAt(uint r) { return token_ * push.heads + firstHead + r; }
uint partAt(uint r, uint chunk) { return ((headAt(r) - push.first * push.heads) * push.chunks + chunk) * (1 + DIM / 4); }

// whole is four elements of the result of head r, whose parts are of that softmax.
vec4 whole(uint r, vec4 values, float most, float total) {
	if (!SINKS)
		return values / total;
	float sink = sinks[min(firstHead + r, push.heads - 1)], higher = max(most, sink), less = exp(most - higher);
	return values * (less / fma(total, less, exp(sink - higher)));
}

// finish writes the result, which is in last_.
void finish() {
	barrier();
	for (uint i = id; i < heads * (DIM / 4); i += LOCAL) {
		uint at = headAt(0) * DIM + 4 * i;
		[[unroll]] for (uint j = 0; j < 4; j++)
			result[at + j] = last_[i][j];
	}
	if (PACK)
		for (uint from = 0; from < heads * (DIM / 4); from += LOCAL) {
			uint i = from + id;
			bool here = i < heads * (DIM / 4);
			pack(headAt(0) * (DIM / 4) + i, here, here ? last_[i] : vec4(0), push.scales);
		}
}

// combine puts the parts of so many chunks together.
void combine(uint count) {
	for (uint r = gl_SubgroupID; r < heads; r += gl_NumSubgroups) {
		float most = NOTHING, total = 0;
		for (uint c = gl_SubgroupInvocationID; c < count; c += gl_SubgroupSize)
			most = max(most, parts[partAt(r, c)].x);
		most = subgroupMax(most);
		for (uint c = gl_SubgroupInvocationID; c < count; c += gl_SubgroupSize) {
			vec4 part = parts[partAt(r, c)];
			float by = exp(part.x - most);
			room_[r * CHUNKS + c] = by;
			total = fma(by, part.y, total);
		}
		total = subgroupAdd(total);
		if (subgroupElect()) {
			tops[r] = most;
			sums[r] = total;
		}
	}
	barrier();
	for (uint i = id; i < heads * (DIM / 4); i += LOCAL) {
		uint r = i / (DIM / 4), d = i % (DIM / 4), at = partAt(r, 0) + 1 + d;
		vec4 v = vec4(0);
		for (uint first = 0; first < count; first += 16) {
			vec4 some[16];
			[[unroll]] for (uint c = 0; c < 16; c++)
				some[c] = parts[at + min(first + c, count - 1) * (1 + DIM / 4)];
			[[unroll]] for (uint c = 0; c < 16; c++)
				v = fma(vec4(first + c < count ? room_[r * CHUNKS + first + c] : 0), some[c], v);
		}
		last_[i] = whole(r, v, tops[r], sums[r]);
	}
	finish();
}

void main() {
	uint group = push.heads / push.kvHeads, tilesOfHeads = (group + SHARE - 1) / SHARE;
	kvHead = gl_WorkGroupID.x / tilesOfHeads;
	firstHead = kvHead * group + gl_WorkGroupID.x % tilesOfHeads * SHARE;
	heads = min(SHARE, (kvHead + 1) * group - firstHead);
	token_ = push.first + gl_WorkGroupID.y;
	if (padding(token_)) {
		if (gl_WorkGroupID.z == 0) {
			for (uint i = id; i < heads * (DIM / 4); i += LOCAL)
				last_[i] = vec4(0);
			finish();
		}
		return;
	}
	begin = firstSeen(token_, push.window, LATER);
	end_ = lastSeen(token_, push.window, LATER);
	uint firstTile = uint(begin) / TILE, tiles = uint(end_) / TILE + 1 - firstTile;
	uint each = (tiles + CHUNKS - 1) / CHUNKS, count = (tiles + each - 1) / each, chunk = gl_WorkGroupID.z;
	if (chunk >= count)
		return;
	for (uint i = id; i < KEY * SHARE; i += LOCAL) {
		uint r = i / KEY, d = i % KEY;
		queries[d * SHARE + r] = r < heads ? q[headAt(r) * KEY + d] : 0;
	}
	[[unroll]] for (uint r = 0; r < SHARE; r++) {
		top[r] = NOTHING;
		sum[r] = 0;
		[[unroll]] for (uint j = 0; j < 8; j++)
			acc[8 * r + j] = 0;
	}
	barrier();
	uint seq = sequence(token_), from = firstTile + chunk * each, to = min(from + each, firstTile + tiles);
	for (uint t = from; t < to; t++)
		tile(seq, int(t * TILE));

	// Slices are added in order.
	[[unroll]] for (uint first = 0; first < SHARE; first += TOGETHER) {
		barrier();
		if (id / EIGHTS < VALUE_SLICES)
			[[unroll]] for (uint r = 0; r < TOGETHER; r++)
				[[unroll]] for (uint j = 0; j < 8; j++)
					if (first + r < SHARE)
						room_[(id / EIGHTS * TOGETHER + r) * DIM + id % EIGHTS * 8 + j] = acc[8 * (first + r) + j];
		barrier();
		for (uint i = id; i < TOGETHER * (DIM / 4); i += LOCAL) {
			uint r = first + i / (DIM / 4), d = i % (DIM / 4);
			if (r >= heads)
				break;
			vec4 v = vec4(0);
			for (uint slice = 0; slice < VALUE_SLICES; slice++)
				v += vec4(room_[slice * TOGETHER * DIM + 4 * i], room_[slice * TOGETHER * DIM + 4 * i + 1], room_[slice * TOGETHER * DIM + 4 * i + 2], room_[slice * TOGETHER * DIM + 4 * i + 3]);
			float most = top[0], total = sum[0];
			[[unroll]] for (uint h = 1; h < SHARE; h++) {
				most = r == h ? top[h] : most;
				total = r == h ? sum[h] : total;
			}
			if (count == 1) {
				last_[r * (DIM / 4) + d] = whole(r, v, most, total);
				continue;
			}
			uint at = partAt(r, chunk);
			if (d == 0)
				parts[at] = vec4(most, total, 0, 0);
			parts[at + 1 + d] = v;
		}
	}
	if (count == 1) {
		finish();
		return;
	}
	memoryBarrierBuffer();
	barrier();
	uint at = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	if (id == 0)
		finished = atomicAdd(done[at], 1);
	barrier();
	if (finished + 1 < count)
		return;
	memoryBarrierBuffer();
	if (id == 0)
		done[at] = 0;
	combine(count);
}
