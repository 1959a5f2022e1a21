// Attention of prompts by cooperative matrices: a workgroup has rows of q that share a KV head, HEADS query heads of each of its
// tokens, and goes through the positions that they see, POSITIONS at a time, which lie in shared memory as halves. A subgroup has
// STRIP of the rows: its scores are M×N matrices of floats, exponentials relative to the largest score so far become halves
// again, and the sums of values are kept in matrices of floats.
//
// CHUNK positions have a softmax of their own, whose part is merged into the result or left to combine.comp. A row's bytes depend on
// the positions that it sees, and on nothing else: tiles and chunks begin at multiples of their sizes, and what a row does not see
// leaves its numbers as they are.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
#include "common.glsl"
#include "attention.glsl"
#include "kv.glsl"

layout(constant_id = 2) const uint KEY = 128; // elements of a head's key; a multiple of 8
layout(constant_id = 3) const uint DIM = 128; // of its value; a multiple of 8
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint POSITIONS = 32;
layout(constant_id = 6) const uint KEY_TYPE = KV_F16;
layout(constant_id = 7) const uint VALUE_TYPE = KV_F16;
layout(constant_id = 8) const uint HAS = 0; // bits
layout(constant_id = 9) const uint M = 16;
layout(constant_id = 10) const uint N = 16;
layout(constant_id = 11) const uint K = 16;
layout(constant_id = 12) const uint DEEP = 1; // matrices of a strip, one below the other

const bool SKIPS = (HAS & 16) != 0; // a subgroup may wait for itself while others do something else

layout(set = 0, binding = 0, std430) readonly buffer Q { vec4 q[]; };
layout(set = 0, binding = 1, std430) readonly buffer Keys { uvec4 keyQuads[]; }; // kv.go has the layout
layout(set = 0, binding = 1, std430) readonly buffer KeyScales { uvec2 keyScales[]; };
layout(set = 0, binding = 2, std430) readonly buffer VPairs { uvec2 valuePairs[]; };
layout(set = 0, binding = 2, std430) readonly buffer VQuads { uvec4 valueQuads[]; };
layout(set = 0, binding = 2, std430) readonly buffer ValueScales { uint16_t valueScales[]; };
layout(set = 0, binding = 3, std430) buffer Out { vec4 result[]; };

#define Left fcoopmatNV<16, gl_ScopeSubgroup, M, K>
#define Right fcoopmatNV<16, gl_ScopeSubgroup, K, N>
#define Sums fcoopmatNV<32, gl_ScopeSubgroup, M, N>

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint STRIP = M * DEEP, TILE = SUBGROUPS * STRIP; // rows
#include "attentionrows.glsl"

const uint PARTS = M * N / SUBGROUP; // components of a matrix of sums that a lane has

// Elements are padded with zeros to whole matrices.
const uint KEYS = (KEY + K - 1) / K * K, VALUES = (DIM + N - 1) / N * N;

// Eight halves lie in a vector. One more to a row keeps it off its neighbour's banks.
const uint KEY_PITCH = KEYS / 8 + 1, VALUE_PITCH = VALUES / 8 + 1, PITCH = POSITIONS / 4 + 1; // the latter of a row of a strip, which are floats
const uint VALUES_AT = POSITIONS * KEY_PITCH;

shared uvec4 tile_[VALUES_AT + POSITIONS * VALUE_PITCH]; // keys and values
shared uvec4 strips[SUBGROUPS * STRIP * PITCH];
shared float olds[TILE]; // by what sums so far are multiplied

uint lane = gl_SubgroupInvocationID;
uint strip = gl_SubgroupID * STRIP; // its first row
uint base = gl_SubgroupID * STRIP * PITCH;

// Rows of a strip that a lane has, and lanes that share a row.
const uint LANES = SUBGROUP > STRIP ? SUBGROUP / STRIP : 1, EACH = STRIP > SUBGROUP ? STRIP / SUBGROUP : 1;
const uint COLUMNS = POSITIONS / LANES; // of a lane
uint rowOf(uint i) { return lane % STRIP + i * SUBGROUP; }

float most(float v) {
	[[unroll]] for (uint by = STRIP; by < SUBGROUP; by *= 2)
		v = max(v, subgroupShuffleXor(v, by));
	return v;
}

float total(float v) {
	[[unroll]] for (uint by = STRIP; by < SUBGROUP; by *= 2)
		v += subgroupShuffleXor(v, by);
	return v;
}

uint halves2(float a, float b) { return packFloat2x16(f16vec2(a, b)); }

uvec4 bytes8(uvec2 words, float scale) {
	uvec4 v;
	[[unroll]] for (int j = 0; j < 4; j++)
		v[j] = halves2(scale * float(bitfieldExtract(int(words[j / 2]), j % 2 * 16, 8)), scale * float(bitfieldExtract(int(words[j / 2]), j % 2 * 16 + 8, 8)));
	return v;
}

uvec4 nibbles8(uvec2 words, float scale) {
	uvec4 v;
	[[unroll]] for (int j = 0; j < 4; j++)
		v[j] = halves2(scale * float(int(bitfieldExtract(words[j / 2], j % 2 * 16, 4)) - 8), scale * float(int(bitfieldExtract(words[j / 2], j % 2 * 16 + 8, 4)) - 8));
	return v;
}

// keys8 are elements 8g… of the keys at four neighbouring slots, the first of which is 4·quad.
void keys8(uint at, uint quad, uint g, out uvec4 v[4]) {
	uvec4 words[4];
	if (KEY_TYPE == KV_F16) {
		[[unroll]] for (uint k = 0; k < 4; k++)
			words[k] = keyQuads[at / 4 + (4 * g + k) * (PAGE / 4) + quad];
		[[unroll]] for (uint i = 0; i < 4; i++)
			v[i] = uvec4(words[0][i], words[1][i], words[2][i], words[3][i]);
		return;
	}
	uint w = KEY_TYPE == KV_Q8_0 ? 2 * g : g / 4 * 4 + g % 2 * 2;
	words[0] = keyQuads[at / 4 + w * (PAGE / 4) + quad];
	words[1] = keyQuads[at / 4 + (w + 1) * (PAGE / 4) + quad];
	uvec2 s = keyScales[(at + PAGE * KV_WORDS(KEY_TYPE, KEY)) / 2 + g / 4 * (PAGE / 4) + quad];
	vec4 scales = vec4(unpackHalf2x16(s.x), unpackHalf2x16(s.y));
	[[unroll]] for (uint i = 0; i < 4; i++)
		v[i] = KEY_TYPE == KV_Q8_0 ? bytes8(uvec2(words[0][i], words[1][i]), scales[i]) : nibbles8(uvec2(words[0][i], words[1][i]) >> g % 4 / 2 * 4, scales[i]);
}

uvec4 value8(uint at, uint slot, uint g) {
	const uint words = KV_WORDS(VALUE_TYPE, DIM);
	uint row = at + slot * words;
	if (VALUE_TYPE == KV_F16)
		return valueQuads[row / 4 + g];
	float scale = unpackHalf2x16(uint(valueScales[2 * (at + PAGE * words) + slot * (DIM / 32) + g / 4])).x;
	if (VALUE_TYPE == KV_Q8_0)
		return bytes8(valuePairs[row / 2 + g], scale);
	return nibbles8(valuePairs[row / 2 + g / 4 * 2 + g % 2] >> g % 4 / 2 * 4, scale);
}

// What an invocation stages of a tile: eight elements of four positions' keys, and of values.
const uint KEY_UNITS = POSITIONS / 4 * (KEYS / 8), VALUE_UNITS = POSITIONS * (VALUES / 8);
const uint KEYS_EACH = (KEY_UNITS + LOCAL - 1) / LOCAL, VALUES_EACH = (VALUE_UNITS + LOCAL - 1) / LOCAL;
uvec4 nextKeys[4 * KEYS_EACH], nextValues[VALUES_EACH];

// fetch loads what stage puts into shared memory. Keys that nobody sees may be anything, values are nothing.
void fetch(uint seq, int from) {
	[[unroll]] for (uint n = 0; n < KEYS_EACH; n++) {
		uint i = id + n * LOCAL, g = i % (KEYS / 8), quad = i / (KEYS / 8);
		int position = from + int(4 * quad);
		uvec4 v[4] = { uvec4(0), uvec4(0), uvec4(0), uvec4(0) };
		if (i < KEY_UNITS && position <= end_ && position + 3 >= begin_ && 8 * g < KEY)
			keys8(blockOf(seq, position) * kvHeadWords(KEY_TYPE, KEY), uint(position) % PAGE / 4, g, v);
		[[unroll]] for (uint j = 0; j < 4; j++)
			nextKeys[4 * n + j] = v[j];
	}
	[[unroll]] for (uint n = 0; n < VALUES_EACH; n++) {
		uint i = id + n * LOCAL, g = i % (VALUES / 8), p = i / (VALUES / 8);
		int position = from + int(p);
		nextValues[n] = uvec4(0);
		if (i < VALUE_UNITS && position <= end_ && position >= begin_ && 8 * g < DIM)
			nextValues[n] = value8(blockOf(seq, position) * kvHeadWords(VALUE_TYPE, DIM), uint(position) % PAGE, g);
	}
}

void stage() {
	[[unroll]] for (uint n = 0; n < KEYS_EACH; n++) {
		uint i = id + n * LOCAL, g = i % (KEYS / 8), quad = i / (KEYS / 8);
		if (i < KEY_UNITS)
			[[unroll]] for (uint j = 0; j < 4; j++)
				tile_[(4 * quad + j) * KEY_PITCH + g] = nextKeys[4 * n + j];
	}
	[[unroll]] for (uint n = 0; n < VALUES_EACH; n++) {
		uint i = id + n * LOCAL;
		if (i < VALUE_UNITS)
			tile_[VALUES_AT + i / (VALUES / 8) * VALUE_PITCH + i % (VALUES / 8)] = nextValues[n];
	}
}

const uint ACROSS = POSITIONS / N, DEPTH = KEYS / K, WIDTH = VALUES / N; // matrices
const uint QUADS = POSITIONS / 4; // of a strip's row

float tops[EACH], totals[EACH]; // of the chunk, by the rows of a lane
float wholeTops[EACH], wholeSums[EACH]; // of the chunks before

// A row of q has so many vectors of four, and a lane so many of them.
const uint FOURS = KEY / 4, FOURS_EACH = (FOURS + SUBGROUP - 1) / SUBGROUP;
vec4 rows_[STRIP * FOURS_EACH];

// load loads the strip's rows, each multiplied by a power of two that makes its largest less than 2^14.
void load() {
	[[unroll]] for (uint r = 0; r < STRIP; r++)
		[[unroll]] for (uint i = 0; i < FOURS_EACH; i++) {
			uint row = strip + r, j = lane + i * SUBGROUP;
			rows_[r * FOURS_EACH + i] = exists(row) && j < FOURS ? q[(tokenOf(row) * push.heads + headOf(row)) * FOURS + j] : vec4(0);
		}
	[[unroll]] for (uint r = 0; r < STRIP; r++) {
		float largest = 0;
		[[unroll]] for (uint i = 0; i < FOURS_EACH; i++) {
			vec4 v = abs(rows_[r * FOURS_EACH + i]);
			largest = max(largest, max(max(v.x, v.y), max(v.z, v.w)));
		}
		largest = subgroupMax(largest);
		int e = largest > 0 ? clamp(14 + 126 - int(floatBitsToUint(largest) >> 23), -100, 100) : 0;
		float by = uintBitsToFloat(uint(127 + e) << 23);
		[[unroll]] for (uint i = 0; i < FOURS_EACH; i++)
			rows_[r * FOURS_EACH + i] *= by;
		if (lane == 0)
			factors[strip + r] = push.scale * uintBitsToFloat(uint(127 - e) << 23);
	}
}

// queries leaves halves of the strip's rows in shared memory: elements 8·from… as far as a strip's row has room.
void queries(uint from) {
	subgroupBarrier();
	[[unroll]] for (uint r = 0; r < STRIP; r++)
		[[unroll]] for (uint i = 0; i < FOURS_EACH + 1; i++) {
			uint j = lane + i * SUBGROUP; // also of the padding
			if (j / 2 < from || j / 2 >= from + QUADS || j >= KEYS / 4)
				continue;
			vec4 v = i < FOURS_EACH ? rows_[r * FOURS_EACH + min(i, FOURS_EACH - 1)] : vec4(0);
			uint at = base + r * PITCH + j / 2 - from;
			strips[at][j % 2 * 2] = halves2(v.x, v.y);
			strips[at][j % 2 * 2 + 1] = halves2(v.z, v.w);
		}
	subgroupBarrier();
}

// weigh turns scores of positions from… into exponentials, as halves, and reports whether sums are to be multiplied by olds.
bool weigh(int from) {
	bool changed = false;
	[[unroll]] for (uint i = 0; i < EACH; i++) {
		uint row = strip + rowOf(i), at = base + rowOf(i) * PITCH, column = lane / STRIP * COLUMNS;
		int start = starts[row] - from - int(column), limit = limits[row] - from - int(column);
		float by = factors[row], s[COLUMNS], top = tops[i], fall = 0, place = 0;
		if (SLOPES && exists(row)) {
			fall = falls[headOf(row)];
			place = float(int(position(tokenOf(row))) - from - int(column));
		}
		[[unroll]] for (uint j = 0; j < COLUMNS; j += 4) {
			precise vec4 v = uintBitsToFloat(strips[at + (column + j) / 4]) * by;
			if (push.softCap > 0) { // cap·tanh(score/cap)
				precise vec4 capped = push.softCap * (1.0 - 2.0 / (1.0 + exp(min(2.0 * v / push.softCap, vec4(80)))));
				v = capped;
			}
			[[unroll]] for (uint k = 0; k < 4; k++) {
				precise float x = SLOPES ? fma(-fall, abs(place - float(j + k)), v[k]) : v[k];
				s[j + k] = int(j + k) >= start && int(j + k) <= limit ? x : NOTHING;
				top = max(top, s[j + k]);
			}
		}
		top = most(top);
		float old = exp(tops[i] - top);
		precise float sum = 0;
		changed = changed || old != 1;
		uint weights[COLUMNS / 2];
		[[unroll]] for (uint j = 0; j < COLUMNS; j += 2) {
			weights[j / 2] = halves2(s[j] == NOTHING ? 0 : exp(s[j] - top) * RAISED, s[j + 1] == NOTHING ? 0 : exp(s[j + 1] - top) * RAISED);
			vec2 rounded = unpackHalf2x16(weights[j / 2]); // so that shares sum up to one
			sum += rounded.x + rounded.y;
		}
		precise float all = fma(totals[i], old, total(sum));
		totals[i] = all;
		tops[i] = top;
		subgroupBarrier();
		[[unroll]] for (uint j = 0; j < COLUMNS; j += 8)
			strips[at + (column + j) / 8] = uvec4(weights[j / 2], weights[j / 2 + 1], weights[j / 2 + 2], weights[j / 2 + 3]);
		if (lane < STRIP)
			olds[row] = old;
	}
	subgroupBarrier();
	return subgroupBallot(changed) != uvec4(0);
}

// measure finds out by what the chunk's sums are multiplied, and by what those so far.
void measure(uint chunk) {
	[[unroll]] for (uint i = 0; i < EACH; i++) {
		uint row = strip + rowOf(i);
		if (lane >= STRIP)
			continue;
		Part whole = Part(wholeTops[i], wholeSums[i]);
		merges[row] = settle(row, chunk, Part(tops[i], totals[i] / RAISED), whole);
		wholeTops[i] = whole.top;
		wholeSums[i] = whole.sum;
	}
	subgroupBarrier();
}

// put merges elements from… of the rows with the results, or leaves them to combine.comp.
void put(uint chunk, uint from) {
	for (uint j = lane; j < STRIP * QUADS; j += SUBGROUP) {
		uint row = strip + j / QUADS, d = from + j % QUADS * 4;
		vec4 by = merges[row];
		if (d >= DIM || by.y == 0 && by.x == 0)
			continue;
		precise vec4 v = uintBitsToFloat(strips[base + j / QUADS * PITCH + j % QUADS]) / RAISED;
		if (!WHOLE) {
			uint at = splitAt(row, chunk) + 2 + d;
			[[unroll]] for (uint k = 0; k < 4; k++)
				splits[at + k] = v[k];
			continue;
		}
		uint at = ((tokenOf(row) * push.heads + headOf(row)) * DIM + d) / 4;
		v *= by.y;
		if (by.x != 0)
			v = fma(result[at], vec4(by.x), v);
		if (by.w != 0) {
			precise vec4 quotient = SINKS ? v * by.z : v / by.z;
			v = quotient;
		}
		result[at] = v;
	}
}

void main() {
	place();
	uint tokens = min(TOKENS, push.tokens - firstToken);

	// A component of a matrix of sums is of this row.
	Sums numbers;
	for (uint j = lane; j < M * (N / 4); j += SUBGROUP)
		strips[base + j / (N / 4) * PITCH + j % (N / 4)] = floatBitsToUint(vec4(j / (N / 4)));
	subgroupBarrier();
	coopMatLoadNV(numbers, strips, base, PITCH, false);
	uint component[PARTS];
	[[unroll]] for (uint j = 0; j < PARTS; j++)
		component[j] = strip + uint(numbers[j]);

	Left rows[DEEP * DEPTH];
	load();
	[[unroll]] for (uint from = 0; from < KEYS / 8; from += QUADS) {
		queries(from);
		[[unroll]] for (uint k = from * 8 / K; k < (from + QUADS) * 8 / K && k < DEPTH; k++)
			[[unroll]] for (uint r = 0; r < DEEP; r++)
				coopMatLoadNV(rows[r * DEPTH + k], strips, base + r * M * PITCH + k * K / 8 - from, PITCH, false);
	}
	subgroupBarrier();

	Sums sums[DEEP * WIDTH];
	[[dont_unroll]] for (uint t = 0; t < tokens; t = runEnd) {
		range(t, run(t, tokens));
		int first = 0x7fffffff, last = -1; // of the strip
		[[unroll]] for (uint i = 0; i < EACH; i++)
			if (limits[strip + rowOf(i)] >= 0) {
				first = min(first, starts[strip + rowOf(i)]);
				last = max(last, limits[strip + rowOf(i)]);
			}
		first = subgroupMin(first);
		last = subgroupMax(last);
		uint seq = sequence(firstToken + t);
		[[dont_unroll]] for (uint chunk = uint(begin_) / CHUNK + (WHOLE ? 0 : gl_WorkGroupID.z); int(chunk * CHUNK) <= end_; chunk += WHOLE ? 1 : gl_NumWorkGroups.z) {
			int at = max(int(chunk * CHUNK), begin_ / int(POSITIONS) * int(POSITIONS)), to = min(int((chunk + 1) * CHUNK), end_ + 1);
			[[unroll]] for (uint i = 0; i < EACH; i++) {
				tops[i] = NOTHING;
				totals[i] = 0;
			}
			[[unroll]] for (uint w = 0; w < DEEP * WIDTH; w++)
				sums[w] = Sums(0);
			fetch(seq, at);
			[[dont_unroll]] for (; at < to; at += int(POSITIONS)) {
				barrier();
				stage();
				barrier();
				if (at + int(POSITIONS) < to)
					fetch(seq, at + int(POSITIONS));
				if (SKIPS && (at > last || at + int(POSITIONS) <= first))
					continue;
				[[unroll]] for (uint r = 0; r < DEEP; r++) {
					Sums scores[ACROSS];
					[[unroll]] for (uint c = 0; c < ACROSS; c++)
						scores[c] = Sums(0);
					[[unroll]] for (uint k = 0; k < DEPTH; k++)
						[[unroll]] for (uint c = 0; c < ACROSS; c++) {
							Right keys;
							coopMatLoadNV(keys, tile_, c * N * KEY_PITCH + k * K / 8, KEY_PITCH, true);
							scores[c] = coopMatMulAddNV(rows[r * DEPTH + k], keys, scores[c]);
						}
					[[unroll]] for (uint c = 0; c < ACROSS; c++)
						coopMatStoreNV(scores[c], strips, base + r * M * PITCH + c * N / 4, PITCH, false);
				}
				subgroupBarrier();
				if (weigh(at))
					[[unroll]] for (uint r = 0; r < DEEP; r++)
						[[unroll]] for (uint j = 0; j < PARTS; j++) {
							float by = olds[component[j] + r * M];
							[[unroll]] for (uint w = 0; w < WIDTH; w++)
								sums[r * WIDTH + w][j] *= by;
						}
				[[unroll]] for (uint k = 0; k < POSITIONS / K; k++) {
					Left weights[DEEP];
					[[unroll]] for (uint r = 0; r < DEEP; r++)
						coopMatLoadNV(weights[r], strips, base + r * M * PITCH + k * K / 8, PITCH, false);
					[[unroll]] for (uint w = 0; w < WIDTH; w++) {
						Right values;
						coopMatLoadNV(values, tile_, VALUES_AT + k * K * VALUE_PITCH + w * N / 8, VALUE_PITCH, false);
						[[unroll]] for (uint r = 0; r < DEEP; r++)
							sums[r * WIDTH + w] = coopMatMulAddNV(weights[r], values, sums[r * WIDTH + w]);
					}
				}
			}
			measure(chunk);
			[[unroll]] for (uint from = 0; from < WIDTH; from += ACROSS) {
				[[unroll]] for (uint r = 0; r < DEEP; r++)
					[[unroll]] for (uint w = 0; w < ACROSS; w++)
						if (from + w < WIDTH)
							coopMatStoreNV(sums[r * WIDTH + from + w], strips, base + r * M * PITCH + w * N / 4, PITCH, false);
				subgroupBarrier();
				put(chunk, from * N);
				subgroupBarrier();
			}
		}
	}
	if (!WHOLE && gl_WorkGroupID.z > 0)
		return;
	for (uint i = id; i < TILE * (DIM / 4); i += LOCAL) {
		uint row = i / (DIM / 4);
		if (exists(row) && padding(tokenOf(row)))
			result[(tokenOf(row) * push.heads + headOf(row)) * (DIM / 4) + i % (DIM / 4)] = vec4(0);
	}
}
