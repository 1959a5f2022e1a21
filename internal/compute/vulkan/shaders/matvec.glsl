// out [n, rows] = x·Wᵀ + bias for up to TOKENS rows of x. LANES invocations sum ROWS rows of the matrix. With BY_HEAD defined there is a product for each
// head, whose rows lie one below the other in W, and whose activations side by side in a token's row;
// with BY_EXPERT, one for each pair of a token and an expert: operands.glsl.
#include "common.glsl"

layout(constant_id = 5) const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

layout(constant_id = 3) const uint ROWS = 2;
layout(constant_id = 4) const uint TOKENS = 1;
layout(constant_id = 6) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 2, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) buffer Total { float total[]; };

layout(push_constant) uniform Push {
	Weights w;
	uint rows;      // of the matrix's part
	uint firstRow;  // the first of them, in the matrix
	uint stride;    // rows of the matrix
	uint tokens;    // n
	uint firstAct;  // row of the activations that belongs to the first token
	uint firstOut;  // and of the output
	uint actScales; // where the activations' scales begin
	uint biased;    // bias has elements, for the whole matrix
#ifdef BY_HEAD
	uint heads;
	uint firstOfHeads; // where the heads' results begin in a row of the output, each headStep behind the one before
	uint headStep;
#endif
#ifdef BY_EXPERT
	uint used;
	uint experts; // that the matrix holds
	uint tabled;  // there is a table of their slots
	uint perExpert; // rows of the matrix that belong to an expert
	uint fromRow;   // the first of them that is wanted
	uint partRows;  // of the matrix's part; push.rows are an expert's then
	uint ofPairs;   // activations have a row for each pair, else for each token
	uint weighed;   // sums are multiplied by the experts' weights
#endif
} push;
#include "operands.glsl"

const uint GROUPS = gl_WorkGroupSize.x / LANES; // of lanes
const uint SUMS = ROWS * TOKENS;

shared float parts[GROUPS * SUMS * (LANES + 1)]; // one more, for shared memory's banks

void main() {
	uint group = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES;
	uint tile = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * GROUPS * ROWS;
	if (tile >= push.rows || count() == 0)
		return;
	uint row = tile + group * ROWS;
	float sums[SUMS];
	[[unroll]] for (uint i = 0; i < SUMS; i++)
		sums[i] = 0;
	for (uint u = lane; u < push.w.units; u += LANES) {
		Unit w[ROWS];
		[[unroll]] for (uint r = 0; r < ROWS; r++)
			w[r] = loadUnit(push.w, weightRow(min(row + r, push.rows - 1)), u);
		[[unroll]] for (uint t = 0; t < TOKENS; t++) {
			Act a = loadAct(actRow(min(t, count() - 1)), push.w.units, push.actScales, u);
			[[unroll]] for (uint r = 0; r < ROWS; r++)
				sums[t * ROWS + r] = accumulate(w[r], a, sums[t * ROWS + r]);
		}
	}
	[[unroll]] for (uint i = 0; i < SUMS; i++)
		parts[(group * SUMS + i) * (LANES + 1) + lane] = sums[i];
	barrier();

	for (uint i = gl_LocalInvocationID.x; i < GROUPS * SUMS; i += gl_WorkGroupSize.x) {
		uint t = i % SUMS / ROWS, r = tile + i / SUMS * ROWS + i % ROWS;
		if (t >= count() || r >= push.rows || !here(r))
			continue;
		precise float sum = 0;
		for (uint l = 0; l < LANES; l++)
			sum += parts[i * (LANES + 1) + l];
		sum = weighed(sum, t);
		if (push.biased != 0)
			sum += bias[biasAt(r)];
		uint at = outAt(t, r);
		result[at] = sum;
		if (ADDED)
			total[at] += sum;
	}
}
