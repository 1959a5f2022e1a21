// act(x·Gateᵀ + bias)·(x·Upᵀ + bias), or without GATED act(x·Gateᵀ + bias), for up to TOKENS rows of x, and with PACK the same in eight bits besides. A
// workgroup has OWN rows of the matrices, a block of what is packed; LANES invocations sum ROWS of them at a time. Sums have the order of product.glsl.
#include "common.glsl"

#define PACKED 7
#include "packing.glsl"

const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

// The same of the second matrix, which has the first one's shape and type.
#undef WEIGHTS
#define WEIGHTS 2
#define WeightQuads UpQuads
#define WeightPairs UpPairs
#define WeightWords UpWords
#define weightQuads upQuads
#define weightPairs upPairs
#define weightWords upWords
#define halfAt upHalfAt
#define byteAt upByteAt
#define scaleOf upScaleOf
#define quantsOf upQuantsOf
#define unitQuants upUnitQuants
#define floatsOf upFloatsOf
#define loadUnit upLoadUnit
#include "loads.glsl"
#include "unit.glsl"
#undef loadUnit

layout(constant_id = 3) const uint ROWS = 4;
layout(constant_id = 4) const uint TOKENS = 1;
layout(constant_id = 5) const uint AHEAD = 1; // units that a lane loads before it multiplies them
layout(constant_id = 6) const uint KIND = 0;  // compute.Nonlinearity
layout(constant_id = 7) const bool PACK = false;
layout(constant_id = 8) const bool GATED = true;

layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 4, std430) writeonly buffer UpOut { float upResult[]; };
layout(set = 0, binding = 5, std430) readonly buffer GateBias { float gateBias[]; };
layout(set = 0, binding = 6, std430) readonly buffer UpBias { float upBias[]; };

layout(push_constant) uniform Push {
	Weights w;      // of either matrix
	uint rows;
	uint tokens;    // n
	uint actScales; // where the activations' scales begin, and the result's
	uint scales;
	uint gateBiased, upBiased;
	float threshold, slope, limit;
} push;

#include "activated.glsl"

const uint OWN = 32, GROUPS = gl_WorkGroupSize.x / LANES, AT_ONCE = GROUPS * ROWS; // rows
const uint EACH = ROWS * TOKENS, SUMS = GATED ? 2 * EACH : EACH;                                     // of an invocation: gates, then ups

shared float parts[GROUPS * SUMS * (LANES + 1)]; // one more, for shared memory's banks
shared float gates[OWN * TOKENS], ups[OWN * TOKENS];

void main() {
	uint id = gl_LocalInvocationID.x, group = id / LANES, lane = id % LANES;
	uint tile = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * OWN;
	if (tile >= push.rows)
		return;
	[[dont_unroll]] for (uint first = 0; first < OWN; first += AT_ONCE) {
		uint row = tile + first + group * ROWS;
		float sums[SUMS];
		[[unroll]] for (uint i = 0; i < SUMS; i++)
			sums[i] = 0;
		for (uint from = lane; from < push.w.units; from += LANES * AHEAD) {
			Unit gate[AHEAD * ROWS], up[AHEAD * ROWS];
			[[unroll]] for (uint j = 0; j < AHEAD; j++)
				[[unroll]] for (uint r = 0; r < ROWS; r++) {
					uint at = min(row + r, push.rows - 1), u = min(from + j * LANES, push.w.units - 1);
					gate[j * ROWS + r] = loadUnit(push.w, at, u);
					if (GATED)
						up[j * ROWS + r] = upLoadUnit(push.w, at, u);
				}
			[[unroll]] for (uint j = 0; j < AHEAD; j++) {
				uint u = from + j * LANES;
				if (u >= push.w.units)
					break;
				[[unroll]] for (uint t = 0; t < TOKENS; t++) {
					Act a = loadAct(min(t, push.tokens - 1), push.w.units, push.actScales, u);
					[[unroll]] for (uint r = 0; r < ROWS; r++) {
						sums[t * ROWS + r] = accumulate(gate[j * ROWS + r], a, sums[t * ROWS + r]);
						if (GATED)
							sums[EACH + t * ROWS + r] = accumulate(up[j * ROWS + r], a, sums[EACH + t * ROWS + r]);
					}
				}
			}
		}
		if (first > 0)
			barrier();
		[[unroll]] for (uint i = 0; i < SUMS; i++)
			parts[(group * SUMS + i) * (LANES + 1) + lane] = sums[i];
		barrier();
		for (uint i = id; i < GROUPS * SUMS; i += gl_WorkGroupSize.x) {
			uint of = i % SUMS, t = of % EACH / ROWS, own = first + i / SUMS * ROWS + of % ROWS, r = min(tile + own, push.rows - 1);
			precise float sum = 0;
			for (uint l = 0; l < LANES; l++)
				sum += parts[i * (LANES + 1) + l];
			if (of < EACH) {
				if (push.gateBiased != 0)
					sum += gateBias[r];
				gates[t * OWN + own] = sum;
			} else {
				if (push.upBiased != 0)
					sum += upBias[r];
				ups[t * OWN + own] = sum;
			}
		}
	}
	barrier();
	const uint QUARTERS = OWN / PART; // of a token, four rows each
	[[dont_unroll]] for (uint from = 0; from < QUARTERS * TOKENS; from += gl_WorkGroupSize.x) {
		uint i = from + id, t = i / QUARTERS, own = i % QUARTERS * PART, at = t * push.rows + tile + own;
		bool here = i < QUARTERS * TOKENS && t < push.tokens;
		vec4 v = vec4(0);
		if (here)
			[[unroll]] for (uint j = 0; j < PART; j++) {
				float up = GATED ? ups[t * OWN + own + j] : 0;
				v[j] = activated(gates[t * OWN + own + j], up);
				if (tile + own + j < push.rows) {
					result[at + j] = v[j];
					if (GATED)
						upResult[at + j] = up;
				}
			}
		if (PACK) // rows are whole blocks
			pack(at / PART, here, v, push.scales);
	}
}
