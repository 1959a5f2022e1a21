// out [n, rows] = x·Wᵀ of prompts, in halves: weights are decoded to halves; activations are halves whose tokens were scaled by powers of
// two (halve.comp), so that none is too large. Sums are floats. With BY_EXPERT and SORTED defined there is a product for each expert:
// operands.glsl.
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl" // constant 3

layout(constant_id = 4) const bool NEURONS = false; // W is down columns by neuron, [columns, rows] in memory
layout(constant_id = 5) const uint TILE_ROWS = 64;  // of a workgroup
layout(constant_id = 6) const uint TILE_TOKENS = 64;
layout(constant_id = 7) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 1, std430) readonly buffer Acts { uvec4 acts[]; }; // halves
layout(set = 0, binding = 1, std430) readonly buffer ActScales { float actScales[]; };
layout(set = 0, binding = 2, std430) buffer Out { float result[]; };
layout(set = 0, binding = 2, std430) buffer OutQuads { vec4 resultQuads[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
#ifdef APART // binding 4 has weights that lie apart
layout(set = 0, binding = 5, std430) buffer Total { float total[]; };
#else
layout(set = 0, binding = 4, std430) buffer Total { float total[]; };
#endif

layout(push_constant) uniform Push {
	Weights w;
	uint rows;      // of the matrix's part; of an expert
	uint firstRow;  // the first of the part's, in the matrix
	uint stride;    // rows of the matrix
	uint tokens;    // n
	uint firstAct;  // row of the activations that belongs to the first token
	uint firstOut;  // and of the output
	uint actScales; // where the activations' scales begin
	uint biased;    // bias has elements, for the whole matrix
	uint columns;   // of the matrix
#ifdef APART
	uint pitch;     // of the weights that lie apart, in quads
	uint fromRow;   // the first of the part's rows that they are of
#endif
#ifdef BY_EXPERT
	uint used;
	uint experts;   // that the matrix holds
	uint tabled;    // there is a table of their slots
	uint perExpert; // rows of the matrix that belong to an expert
	uint fromRow;   // the first of them that is wanted
	uint partRows;  // of the matrix's part
	uint ofPairs;   // activations have a row for each pair, else for each token
	uint weighed;   // sums are multiplied by the experts' weights
#endif
} push;
#include "operands.glsl"

// A row of activations is filled up with zeros to PADDED columns.
const uint PADDED = 64;
uint actQuads() { return (push.columns + PADDED - 1) / PADDED * (PADDED / 8); }

// again is the sum of row r and token t in floats alone.
float again(uint r, uint t) {
	float sum = 0, f[8];
	uint act = actRow(t) * actQuads(), row = weightRow(r);
	// Row r lies in a slot's element.
	uint slot = QUANTISED ? row / 32 * 4 + row % 16 / 4 : row / 8, element = QUANTISED ? row % 4 + row % 32 / 16 * 4 : row % 8;
	for (uint k = 0; k < (NEURONS ? push.columns : slots(push.w) * 8); k++) {
		float w;
		if (NEURONS) {
			outputs(push.w, k, slot, f);
			w = f[element];
		} else {
			uint at = QUANTISED ? k / 32 * 4 + k % 16 / 4 : k / 8;
			outputs(push.w, row, at, f);
			w = f[QUANTISED ? k % 4 + k % 32 / 16 * 4 : k % 8];
		}
		sum = fma(w, unpackHalf2x16(acts[act + k / 8][k % 8 / 2])[k % 2], sum);
	}
	return sum;
}

// finished is the result of row r and token t, from their sum. One that left the range of halves on its way is summed again.
float finished(uint r, uint t, float scale, float sum) {
	if ((floatBitsToUint(sum) & 0x7f800000u) == 0x7f800000u)
		sum = again(r, t);
	precise float v = weighed(sum * scale, t);
	if (push.biased != 0)
		v += bias[biasAt(r)];
	return v;
}

// put writes the sum of row r and token t, if they are there.
void put(uint r, uint t, float sum) {
	if (t >= count() || r >= push.rows || !here(r))
		return;
	precise float v = finished(r, t, actScales[push.actScales + actRow(t)], sum);
	uint at = outAt(t, r);
	result[at] = v;
	if (ADDED)
		total[at] += v;
}
