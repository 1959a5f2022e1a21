// Sums of the outputs of a few single tokens' experts, times the experts' weights, in the order of the choice. This is the
// second half of package ref's Experts. A workgroup computes OWN rows of the result of token y. LANES invocations sum a
// row of SUMS experts at a time, in the order of product.glsl. With NEXT the result is added to total, and the RMSNorm of
// that is begun, as in block.glsl.
#include "common.glsl"

#define PACKED 7
#define PACKERS gl_WorkGroupSize.x
#include "packing.glsl"
#include "squares.glsl"

const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

layout(constant_id = 3) const uint SUMS = 4;
layout(constant_id = 4) const uint USED = 8; // experts of a token
layout(constant_id = 5) const bool NEXT = false;
layout(constant_id = 6) const uint OWN = 32; // with NEXT a block of packed elements

layout(set = 0, binding = 2, std430) readonly buffer Choice { float choice[]; };  // [tokens, 2·used]
layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };    // [tokens, rows]
layout(set = 0, binding = 4, std430) buffer Total { float total[]; };             // [tokens, rows]
layout(set = 0, binding = 5, std430) readonly buffer Bias { float bias[]; };      // of all experts, by their numbers

layout(push_constant) uniform Push {
	Weights w;
	uint rows;       // of an expert
	uint actScales;  // where the activations' scales begin, and those of the norm
	uint scales;
	uint biased;
	uint firstToken; // row of the result and of the choices that belongs to the first token
	uint experts;    // that the matrix holds
	uint tabled;     // there is a table of their slots
	uint weighed;    // the experts' outputs are multiplied by their weights
	uint squares;    // where the norm's sums of squares [tokens, blocks] begin
} push;
#define TABLE 6
#include "slots.glsl"

const uint TOKENS = 1;
#include "next.glsl"

const uint GROUPS = gl_WorkGroupSize.x / LANES, TURNS = (USED + SUMS - 1) / SUMS; // of a row
#include "lanesums.glsl"

shared float given[USED * OWN];                   // the experts' outputs
shared uint places[USED];
shared uint numbers[USED];
shared float by[USED];

void main() {
	uint id = gl_LocalInvocationID.x, group = id / LANES, lane = id % LANES, tile = gl_WorkGroupID.x * OWN, token = gl_WorkGroupID.y;
	uint row = push.firstToken + token;
	for (uint k = id; k < USED; k += gl_WorkGroupSize.x) {
		float expert = choice[2 * row * USED + k];
		places[k] = slotChosen(expert);
		numbers[k] = places[k] < push.experts ? uint(expert) : 0;
		by[k] = choice[(2 * row + 1) * USED + k];
	}
	barrier();
	[[dont_unroll]] for (uint first = 0; first < OWN * TURNS; first += GROUPS) {
		uint item = min(first + group, OWN * TURNS - 1), own = item % OWN, k = item / OWN * SUMS;
		float sums[SUMS];
		[[unroll]] for (uint i = 0; i < SUMS; i++)
			sums[i] = 0;
		for (uint u = lane; u < push.w.units; u += LANES)
			[[unroll]] for (uint i = 0; i < SUMS; i++) {
				uint slot = places[min(k + i, USED - 1)];
				Unit w = loadUnit(push.w, (slot < push.experts ? slot : 0) * push.rows + min(tile + own, push.rows - 1), u);
				Act a = loadAct(token * USED + min(k + i, USED - 1), push.w.units, push.actScales, u);
				sums[i] = accumulate(w, a, sums[i]);
			}
		[[unroll]] for (uint from = 0; from < SUMS; from += CHUNK) {
			share(sums, from);
			for (uint i = id; i < GROUPS * CHUNK; i += gl_WorkGroupSize.x) {
				uint of = first + i / CHUNK, expert = of / OWN * SUMS + from + i % CHUNK;
				if (of >= OWN * TURNS || from + i % CHUNK >= SUMS || expert >= USED)
					continue;
				precise float sum = laneSum(i);
				if (push.biased != 0)
					sum += bias[numbers[expert] * push.rows + min(tile + of % OWN, push.rows - 1)];
				given[expert * OWN + of % OWN] = sum;
			}
		}
	}
	barrier();
	uint own = id * PART, at = row * push.rows + tile + own;
	bool here = own < OWN && tile + own < push.rows;
	vec4 v = vec4(0);
	if (here) {
		vec4 sums = vec4(0);
		[[unroll]] for (uint j = 0; j < PART; j++) {
			if (tile + own + j >= push.rows)
				break;
			precise float sum = 0;
			bool broken = false;
			// Unrolled, Mesa takes the first product for 0 plus it, which has another sign if the product is -0.
			[[dont_unroll]] for (uint k = 0; k < USED; k++) {
				if (places[k] >= push.experts)
					continue;
				broken = broken || (floatBitsToUint(by[k]) & 0x7fffffffu) > 0x7f800000u;
				float y = given[k * OWN + own + j];
				sum += push.weighed != 0 ? by[k] * y : y;
			}
			if (broken)
				sum = uintBitsToFloat(0x7fc00000u);
			result[at + j] = sum;
			if (NEXT) {
				sums[j] = total[at + j] + sum;
				total[at + j] = sums[j];
			}
		}
		if (NEXT)
			v = begun(sums, (tile + own) / PART, id);
	}
	if (!NEXT)
		return;
	pack(at / PART, here, v, push.scales); // rows are whole blocks; this has barriers
	if (id == 0)
		writeSquares(0, row * (push.rows / OWN) + gl_WorkGroupID.x);
}
