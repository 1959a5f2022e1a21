// Tiles of halves by matrices of a whole workgroup (VK_NV_cooperative_matrix2): the driver loads them from memory, and chooses how they
// lie in registers and shared memory. Quantised weights were made halves by decode.comp. Sums are added to in the order of columns, and
// depend on neither the tile nor the other tokens.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#pragma use_vulkan_memory_model
#define APART
#include "longproduct.glsl"

layout(constant_id = 8) const uint DEPTH = 64; // columns that are multiplied at once
const uint UNROLLED = 4;                       // products of a turn

layout(set = 0, binding = 4, std430) readonly buffer Halves { uvec4 halves[]; };

#define Rows coopmat<float16_t, gl_ScopeWorkgroup, TILE_ROWS, DEPTH, gl_MatrixUseA>
#define Tokens coopmat<float16_t, gl_ScopeWorkgroup, DEPTH, TILE_TOKENS, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeWorkgroup, TILE_ROWS, TILE_TOKENS, gl_MatrixUseAccumulator>
#define Inside tensorLayoutNV<2>
#define Across tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> // loads zeros and stores nothing where there is nothing
#define across() createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV)

// finish returns the result's element for a sum; it may be called more than once.
float finish(const in uint row, const in uint token, const in float sum, const in uint firstRow, const in uint firstToken) {
	if (firstRow + row >= push.rows || firstToken + token >= push.tokens)
		return 0;
	return finished(firstRow + row, firstToken + token, actScales[push.actScales + push.firstAct + firstToken + token], sum);
}

// MULTIPLY multiplies DEPTH columns from k on. Neurons lie turned in memory, as tokens do.
#define MULTIPLY(rowsLayout, tokensLayout, k) { \
	Rows w; \
	Tokens a; \
	if (NEURONS) \
		coopMatLoadTensorNV(w, halves, 0, sliceTensorLayoutNV(rowsLayout, k, DEPTH, firstRow, TILE_ROWS), turned); \
	else \
		coopMatLoadTensorNV(w, halves, 0, sliceTensorLayoutNV(rowsLayout, firstRow, TILE_ROWS, k, DEPTH)); \
	coopMatLoadTensorNV(a, acts, 0, sliceTensorLayoutNV(tokensLayout, push.firstAct + firstToken, TILE_TOKENS, k, DEPTH), turned); \
	sums = coopMatMulAdd(w, a, sums); \
}

void main() {
	uint firstToken = gl_WorkGroupID.x * TILE_TOKENS, firstRow = gl_WorkGroupID.y * TILE_ROWS;
	uint lines = NEURONS ? push.columns : push.rows, elements = NEURONS ? push.rows : push.columns; // of the weights in memory
	uint pitch = push.pitch * 8, actPitch = actQuads() * 8;
	tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
	Sums sums = Sums(0);
	uint step = 0, steps = push.columns / DEPTH;
	if (firstRow + TILE_ROWS <= push.rows && firstToken + TILE_TOKENS <= push.tokens) {
		Inside rows = createTensorLayoutNV(2), tokens = createTensorLayoutNV(2);
		rows = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(rows, lines, elements), pitch, 1);
		tokens = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(tokens, push.firstAct + push.tokens, push.columns), actPitch, 1);
		for (uint turn = 0; turn < steps / UNROLLED; turn++) {
			[[unroll]] for (uint i = 0; i < UNROLLED; i++)
				MULTIPLY(rows, tokens, (turn * UNROLLED + i) * DEPTH)
		}
		[[dont_unroll]] for (step = steps / UNROLLED * UNROLLED; step < steps; step++)
			MULTIPLY(rows, tokens, step * DEPTH)
	}
	Across rows = across(), tokens = across();
	rows = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(rows, lines, elements), pitch, 1);
	tokens = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(tokens, push.firstAct + push.tokens, push.columns), actPitch, 1);
	[[dont_unroll]] for (; step * DEPTH < push.columns; step++)
		MULTIPLY(rows, tokens, step * DEPTH)
	coopMatPerElementNV(sums, sums, finish, firstRow, firstToken);
	Across place = across();
	place = setTensorLayoutStrideNV(setTensorLayoutDimensionNV(place, push.firstOut + push.tokens, push.firstRow + push.rows), push.stride, 1);
	place = sliceTensorLayoutNV(place, push.firstOut + firstToken, TILE_TOKENS, push.firstRow + firstRow, TILE_ROWS);
	coopMatStoreTensorNV(sums, result, 0, place, turned);
	if (ADDED) {
		Sums before;
		coopMatLoadTensorNV(before, total, 0, place, turned);
		coopMatStoreTensorNV(before + sums, total, 0, place, turned);
	}
}
