// Tiles of halves by matrices of a whole workgroup (VK_NV_cooperative_matrix2): the driver chooses how they lie in registers and
// shared memory, and loads them from memory itself. Quantised weights are decoded as they are loaded, or were decoded into memory by
// decode.comp. Sums are added to in the order of columns, and depend on neither the tile nor the other tokens.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_buffer_reference : require
#pragma use_vulkan_memory_model
#define TOTAL 5
#include "longproduct.glsl"

layout(constant_id = 8) const bool DECODED = false; // decoded has the weights
layout(constant_id = 9) const uint DEPTH = 64;      // columns that are multiplied at once
layout(constant_id = 10) const uint UNROLLED = 4;   // products of a turn

layout(constant_id = 11) const bool DIRECT = false;

layout(set = 0, binding = 4, std430) readonly buffer Decoded { uvec4 decodedQuads[]; };

#define Rows coopmat<float16_t, gl_ScopeWorkgroup, TILE_ROWS, DEPTH, gl_MatrixUseA>
#define Tokens coopmat<float16_t, gl_ScopeWorkgroup, DEPTH, TILE_TOKENS, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeWorkgroup, TILE_ROWS, TILE_TOKENS, gl_MatrixUseAccumulator>

// Unit is what the address that a decode function is given points to. Ours reads regions of the binding instead.
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Unit { uint word; };

// weight is an element of a unit of 32.
float16_t weight(const in Unit unused, const in uint unitAt[2], const in uint elementAt[2]) {
	uint unit = unitAt[0] * push.w.units + unitAt[1], element = elementAt[1];
	ivec2 q = quantsOf(push.w, unit, element % 16 / 4);
	int v = bitfieldExtract(element < 16 ? q.x : q.y, int(8 * (element % 4)), 8) - OFFSET;
	if (GROUPED) {
		uint at = (unitAt[0] / 32 * push.w.units + unitAt[1]) * 32 + element;
		return float16_t(halfOf(weightWords[push.w.a + at / 2], at) * float(v));
	}
	Scale s = scaleOf(push.w, unit);
	uint part = element / 16;
	if (MINIMA)
		return float16_t(s.d * float(s.s[part]) * float(v) - s.m * float(s.least[part]));
	if (SCALES == SMALL_FLOATS)
		return float16_t((part == 0 ? s.d : s.m) * float(v));
	return float16_t(s.d * float(s.s[part]) * float(v));
}

// finish returns the result's element for a sum; it may be called more than once.
float finish(const in uint row, const in uint token, const in float sum, const in uint firstRow, const in uint firstToken) {
	if (firstRow + row >= push.rows || firstToken + token >= push.tokens)
		return 0;
	return finished(firstRow + row, firstToken + token, actScales[push.actScales + push.firstAct + firstToken + token], sum);
}

const bool HALVES = TYPE == F16 || DECODED;

// LOAD loads a matrix of weights; WITH is nothing, or a view.
#define NOTHING
#define VIEW , turned
#define LOAD(matrix, slice, WITH) \
	if (TYPE == F16) { coopMatLoadTensorNV(matrix, weightQuads, 0, slice WITH); } \
	else if (DECODED) { coopMatLoadTensorNV(matrix, decodedQuads, 0, slice WITH); } \
	else { coopMatLoadTensorNV(matrix, weightQuads, 0, slice WITH, weight); }

#define MULTIPLY(rowsLayout, tokensLayout) { \
	Rows left; \
	Tokens right; \
	if (NEURONS) { \
		LOAD(left, sliceTensorLayoutNV(rowsLayout, k, DEPTH, firstRow, TILE_ROWS), VIEW) \
	} else { \
		LOAD(left, sliceTensorLayoutNV(rowsLayout, firstRow, TILE_ROWS, k, DEPTH), NOTHING) \
	} \
	coopMatLoadTensorNV(right, acts, 0, sliceTensorLayoutNV(tokensLayout, push.firstAct + firstToken, TILE_TOKENS, k, DEPTH), turned); \
	sums = coopMatMulAdd(left, right, sums); \
	k += DEPTH; \
}

void main() {
	uint firstRow = gl_WorkGroupID.y * TILE_ROWS, firstToken = gl_WorkGroupID.x * TILE_TOKENS;
	uint rows = NEURONS ? push.columns : push.rows, columns = NEURONS ? push.rows : push.columns; // as weights lie in memory
	uint pitch = TYPE == F16 ? 16 * push.w.units : DECODED ? 32 * push.w.units : push.w.units;
	tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
	Sums sums = Sums(0);
	uint k = 0;
	if (firstRow + TILE_ROWS <= push.rows && firstToken + TILE_TOKENS <= push.tokens && push.columns % DEPTH == 0) {
		tensorLayoutNV<2> w = createTensorLayoutNV(2), a = createTensorLayoutNV(2);
		if (!HALVES)
			w = setTensorLayoutBlockSizeNV(w, 1, 32);
		w = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(w, rows, columns), pitch, 1);
		a = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(a, push.firstAct + push.tokens, push.columns), 8 * actQuads(), 1);
		uint turns = push.columns / (DEPTH * UNROLLED);
		for (uint i = 0; i < turns; i++) {
			[[unroll]] for (uint j = 0; j < UNROLLED; j++)
				MULTIPLY(w, a)
		}
		[[dont_unroll]] while (k < push.columns)
			MULTIPLY(w, a)
	} else {
		tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> w = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV), a = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
		if (!HALVES)
			w = setTensorLayoutBlockSizeNV(w, 1, 32);
		w = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(w, rows, columns), pitch, 1);
		a = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(a, push.firstAct + push.tokens, push.columns), 8 * actQuads(), 1);
		[[dont_unroll]] while (k < push.columns)
			MULTIPLY(w, a)
	}
	coopMatPerElementNV(sums, sums, finish, firstRow, firstToken);
	tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> out_ = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
	out_ = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(out_, push.firstOut + push.tokens, push.firstRow + push.rows), push.stride, 1);
	out_ = sliceTensorLayoutNV(out_, push.firstOut + firstToken, TILE_TOKENS, push.firstRow + firstRow, TILE_ROWS);
	coopMatStoreTensorNV(sums, result, 0, out_, turned);
	if (ADDED) {
		Sums before;
		coopMatLoadTensorNV(before, total, 0, out_, turned);
		coopMatStoreTensorNV(before + sums, total, 0, out_, turned);
	}
}
