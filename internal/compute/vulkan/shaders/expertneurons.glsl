// Neurons of a few pairs of a token and one of its experts: act(x·Gᵀ + bias)·(x·Uᵀ + bias), or act(x·Uᵀ + bias), and with
// PACK also in eight bits. This is the first half of package ref's Experts. A workgroup computes OWN neurons of pair z.
// LANES invocations sum ROWS rows of each matrix at a time, in the order of product.glsl.
#include "common.glsl"

#define PACKED 7
#define PACKERS gl_WorkGroupSize.x
#include "packing.glsl"

const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

// The same for the ups, which have the shape and type of the gates.
#define UPS 2
#include "up.glsl"

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint KIND = 0; // compute.Nonlinearity
layout(constant_id = 5) const bool PACK = false;
layout(constant_id = 6) const bool GATED = true; // else the ups are bound in place of the gates

layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };   // [pairs, neurons]
layout(set = 0, binding = 4, std430) readonly buffer Choice { float choice[]; }; // [tokens, 2·used]
layout(set = 0, binding = 5, std430) readonly buffer Bias { float bias[]; };     // of all experts, by their numbers
layout(set = 0, binding = 6, std430) readonly buffer UpBias { float upBias[]; };

layout(push_constant) uniform Push {
	Weights w;      // of either matrix
	uint neurons;   // of an expert
	uint actScales; // where the activations' scales begin, and the result's
	uint scales;
	uint biased, upBiased;
	float threshold, slope, limit;
	uint firstToken; // row of the activations and the choices that belongs to the first token
	uint used;
	uint experts;   // that the matrices hold
	uint tabled;    // there is a table of their slots
	uint perExpert; // rows of a matrix for each expert
	uint fromGate, fromUp; // the first of these rows that are wanted
	uint before;    // the experts' weights multiply sums
} push;
#define TABLE 8
#include "slots.glsl"

#include "activated.glsl"

const uint OWN = 32, GROUPS = gl_WorkGroupSize.x / LANES, AT_ONCE = GROUPS * ROWS, SUMS = GATED ? 2 * ROWS : ROWS;
#include "lanesums.glsl"

shared float gates[OWN], ups[OWN];

void main() {
	uint id = gl_LocalInvocationID.x, group = id / LANES, lane = id % LANES, tile = gl_WorkGroupID.x * OWN, pair = gl_WorkGroupID.z;
	uint token = push.firstToken + pair / push.used, at = 2 * token * push.used + pair % push.used;
	uint slot = slotChosen(choice[at]);
	if (slot >= push.experts)
		return;
	uint number = uint(choice[at]) * push.perExpert;
	float by = push.before != 0 ? choice[at + push.used] : 1;
	[[dont_unroll]] for (uint first = 0; first < OWN; first += AT_ONCE) {
		uint row = tile + first + group * ROWS;
		float sums[SUMS];
		[[unroll]] for (uint i = 0; i < SUMS; i++)
			sums[i] = 0;
		for (uint u = lane; u < push.w.units; u += LANES) {
			Unit w[ROWS], up[ROWS];
			[[unroll]] for (uint r = 0; r < ROWS; r++) {
				uint from = slot * push.perExpert + min(row + r, push.neurons - 1);
				w[r] = loadUnit(push.w, from + push.fromGate, u);
				if (GATED)
					up[r] = loadUp(push.w, from + push.fromUp, u);
			}
			Act a = loadAct(token, push.w.units, push.actScales, u);
			[[unroll]] for (uint r = 0; r < ROWS; r++) {
				sums[r] = accumulate(w[r], a, sums[r]);
				if (GATED)
					sums[ROWS + r] = accumulate(up[r], a, sums[ROWS + r]);
			}
		}
		[[unroll]] for (uint from = 0; from < SUMS; from += CHUNK) {
			share(sums, from);
			for (uint i = id; i < GROUPS * CHUNK; i += gl_WorkGroupSize.x) {
				uint of = from + i % CHUNK, own = first + i / CHUNK * ROWS + of % ROWS, r = min(tile + own, push.neurons - 1);
				if (of >= SUMS)
					continue;
				precise float sum = laneSum(i);
				if (push.before != 0)
					sum *= by;
				if (of < ROWS) {
					if (push.biased != 0)
						sum += bias[number + push.fromGate + r];
					gates[own] = sum;
				} else {
					if (push.upBiased != 0)
						sum += upBias[number + push.fromUp + r];
					ups[own] = sum;
				}
			}
		}
	}
	barrier();
	uint own = id * PART, to = pair * push.neurons + tile + own;
	bool here = own < OWN && tile + own < push.neurons;
	vec4 v = vec4(0);
	if (here)
		[[unroll]] for (uint j = 0; j < PART; j++)
			if (tile + own + j < push.neurons) {
				v[j] = activated(gates[own + j], GATED ? ups[own + j] : 0);
				result[to + j] = v[j];
			}
	if (PACK) // neurons are whole blocks
		pack(to / PART, here, v, push.scales);
}
