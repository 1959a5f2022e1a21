// Attention of prompts by matrices of a whole workgroup (VK_NV_cooperative_matrix2), with a cache in F16: what attention_tile.comp
// computes, with the same chunks. The driver loads keys and values from the cache's pages, and chooses how matrices lie in registers and
// shared memory. Queries were made halves by halve.comp. HEADS divides the rows, and the heads that share a KV head. Its
// scalar twin is package ref's Attend.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#pragma use_vulkan_memory_model
#include "common.glsl"
#include "attention.glsl"

layout(constant_id = 2) const uint KEY = 128; // elements of a head's key
layout(constant_id = 3) const uint DIM = 128; // of its value
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint POSITIONS = 64; // that are computed at a time: a page's, or some of them
layout(constant_id = 6) const uint HAS = 0;        // bits
layout(constant_id = 7) const uint TILE = 64;      // rows

layout(set = 0, binding = 0, std430) readonly buffer Queries { uvec4 queries[]; }; // halves
layout(set = 0, binding = 0, std430) readonly buffer QueryScales { float queryScales[]; };
layout(set = 0, binding = 1, std430) readonly buffer Keys { uvec4 keys[]; }; // kv.go has the layout
layout(set = 0, binding = 2, std430) readonly buffer Values { uvec4 values[]; };
layout(set = 0, binding = 3, std430) workgroupcoherent buffer Out { float result[]; };

#define HALVES
#include "attentionrows.glsl"

#define Rows coopmat<float16_t, gl_ScopeWorkgroup, TILE, KEY, gl_MatrixUseA>
#define Columns coopmat<float16_t, gl_ScopeWorkgroup, KEY, POSITIONS, gl_MatrixUseB>
#define Scores coopmat<float, gl_ScopeWorkgroup, TILE, POSITIONS, gl_MatrixUseAccumulator>
#define Weights coopmat<float16_t, gl_ScopeWorkgroup, TILE, POSITIONS, gl_MatrixUseA>
#define Seen coopmat<float16_t, gl_ScopeWorkgroup, POSITIONS, DIM, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeWorkgroup, TILE, DIM, gl_MatrixUseAccumulator>

const uint QUAD = 8; // halves of a vector

shared float tops[TILE], totals[TILE]; // of the chunk
shared float wholeTops[TILE], wholeSums[TILE]; // of the chunks before

float larger(const in float a, const in float b) { return max(a, b); }
float plus(const in float a, const in float b) {
	precise float sum = a + b;
	return sum;
}
float either(const in float a, const in float b) { return a; }

// The functions of matrices' elements may be called more than once for an element.

// score returns the score that a row has for a position, from their product.
float score(const in uint row, const in uint column, const in float sum, const in int from) {
	int at = from + int(column);
	if (at < starts[row] || at > limits[row])
		return NOTHING;
	precise float v = sum * factors[row];
	if (push.softCap > 0) { // cap·tanh(score/cap)
		precise float capped = push.softCap * (1.0 - 2.0 / (1.0 + exp(min(2.0 * v / push.softCap, 80))));
		v = capped;
	}
	if (SLOPES) {
		precise float sloped = fma(-falls[headOf(row)], abs(float(int(position(tokenOf(row))) - at)), v);
		v = sloped;
	}
	return v;
}

float top(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }

// fall returns by what a row's sums so far are multiplied.
float fall(const in uint row, const in uint column, const in float before, const in float now) { return exp(before - now); }

// weight returns the exponential of a score. It is rounded as the half that it becomes, so that shares sum up to one.
float weight(const in uint row, const in uint column, const in float s, const in float top) {
	return s == NOTHING ? 0 : float(float16_t(exp(s - top) * RAISED));
}

float total(const in uint row, const in uint column, const in float before, const in float old, const in float sum) {
	precise float v = fma(before, old, sum);
	return v;
}

// present returns an element of a position's value; nothing where no row sees the position.
float16_t present(const in uint row, const in uint column, const in float16_t v, const in int from) {
	int at = from + int(row);
	return at >= begin_ && at <= end_ ? v : float16_t(0);
}

// keep leaves a row's largest score and sum in shared memory.
float keep(const in uint row, const in uint column, const in float top, const in float total) {
	if (column == 0) {
		tops[row] = top;
		totals[row] = total;
	}
	return top;
}

uint resultAt(uint row, uint column) { return (tokenOf(row) * push.heads + headOf(row)) * DIM + column; }

// joined returns an element of the result with the chunk's sum.
float joined(const in uint row, const in uint column, const in float sum) {
	vec4 by = merges[row];
	precise float v = sum / RAISED;
	if (!WHOLE)
		return v;
	v *= by.y;
	if (by.x != 0)
		v = fma(result[resultAt(row, column)], by.x, v);
	if (by.w != 0) {
		precise float quotient = SINKS ? v * by.z : v / by.z;
		v = quotient;
	}
	return v;
}

// put writes it, or leaves it to combine.comp.
float put(const in uint row, const in uint column, const in float v, const in uint chunk) {
	if (merges[row].x == 0 && merges[row].y == 0)
		return v;
	if (WHOLE)
		result[resultAt(row, column)] = v;
	else
		splits[splitAt(row, chunk) + 2 + column] = v;
	return v;
}

// together waits for the workgroup, and shows its invocations what the others wrote.
void together() {
	controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

void main() {
	place();
	uint tokens = min(TOKENS, push.tokens - firstToken);
	for (uint row = id; row < TILE; row += LOCAL)
		factors[row] = exists(row) ? push.scale * queryScales[push.scales + tokenOf(row) * push.heads + headOf(row)] : 0;

	Rows rows;
	tensorLayoutNV<3, gl_CooperativeMatrixClampModeConstantNV> q = createTensorLayoutNV(3, gl_CooperativeMatrixClampModeConstantNV); // zeros beyond the last token
	q = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(q, push.tokens, push.heads, KEY), push.heads * push.pitch, push.pitch, 1);
	coopMatLoadTensorNV(rows, queries, 0, sliceTensorLayoutNV(q, firstToken, TOKENS, firstHead, HEADS, 0, KEY));

	// A page has [pairs of elements, positions, 2] of keys, which are [elements, positions] in matrices, and [positions, elements] of values.
	tensorLayoutNV<3> k = setTensorLayoutDimensionNV(createTensorLayoutNV(3), KEY / 2, PAGE, 2);
	tensorViewNV<3, false, 0, 2, 1> turned = createTensorViewNV(3, false, 0, 2, 1);
	tensorLayoutNV<2> v = setTensorLayoutDimensionNV(createTensorLayoutNV(2), PAGE, DIM);

	[[dont_unroll]] for (uint t = 0; t < tokens; t = runEnd) {
		range(t, run(t, tokens));
		uint seq = sequence(firstToken + t);
		[[dont_unroll]] for (uint chunk = uint(begin_) / CHUNK + (WHOLE ? 0 : gl_WorkGroupID.z); int(chunk * CHUNK) <= end_; chunk += WHOLE ? 1 : gl_NumWorkGroups.z) {
			int at = max(int(chunk * CHUNK), begin_ / int(POSITIONS) * int(POSITIONS)), to = min(int((chunk + 1) * CHUNK), end_ + 1);
			Scores highest = Scores(NOTHING), sum = Scores(0);
			Sums sums = Sums(0);
			[[dont_unroll]] for (; at < to; at += int(POSITIONS)) {
				uint block = blockOf(seq, at), slot = uint(at) % PAGE;
				Columns columns;
				coopMatLoadTensorNV(columns, keys, block * (PAGE * KEY / QUAD), sliceTensorLayoutNV(k, 0, KEY / 2, slot, POSITIONS, 0, 2), turned);
				Scores s = coopMatMulAdd(rows, columns, Scores(0)), now, old, more;
				coopMatPerElementNV(s, s, score, at);
				coopMatReduceNV(now, s, gl_CooperativeMatrixReduceRowNV, larger);
				coopMatPerElementNV(now, now, top, highest);
				coopMatPerElementNV(old, highest, fall, now);
				highest = now;
				coopMatPerElementNV(s, s, weight, highest);
				coopMatReduceNV(more, s, gl_CooperativeMatrixReduceRowNV, plus);
				coopMatPerElementNV(sum, sum, total, old, more);
				Sums by;
				coopMatReduceNV(by, old, gl_CooperativeMatrixReduceRowNV, either);
				Seen seen;
				coopMatLoadTensorNV(seen, values, block * (PAGE * DIM / QUAD), sliceTensorLayoutNV(v, slot, POSITIONS, 0, DIM));
				if (at < begin_ || at + int(POSITIONS) > end_ + 1)
					coopMatPerElementNV(seen, seen, present, at);
				sums = coopMatMulAdd(Weights(s), seen, sums * by);
			}
			coopMatPerElementNV(highest, highest, keep, sum);
			barrier();
			for (uint row = id; row < TILE; row += LOCAL) {
				Part whole = Part(wholeTops[row], wholeSums[row]);
				merges[row] = settle(row, chunk, Part(tops[row], totals[row] / RAISED), whole);
				wholeTops[row] = whole.top;
				wholeSums[row] = whole.sum;
			}
			together();
			coopMatPerElementNV(sums, sums, joined);
			together();
			coopMatPerElementNV(sums, sums, put, chunk);
		}
	}
	if (!WHOLE && gl_WorkGroupID.z > 0)
		return;
	for (uint i = id; i < TILE * DIM; i += LOCAL)
		if (exists(i / DIM) && padding(tokenOf(i / DIM)))
			result[resultAt(i / DIM, i % DIM)] = 0;
}
