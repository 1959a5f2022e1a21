// Products of up to TOKENS rows of x whose results make whole blocks, so that more can be done with them at once. A workgroup has OWN rows of the matrix,
// or of two, and LANES invocations sum ROWS of them at a time, in the order of product.glsl. With
//   ACTIVE, TWO   the result is act(x·Wᵀ + bias), or act(x·Wᵀ + bias)·(x·W2ᵀ + bias), and with PACK the same in eight bits besides;
//   NEXT          the result is added to total, and the RMSNorm of that is begun: of each block total·next in eight bits, and the sum of total's squares;
//   ROOTED        x is what NEXT left: its scales are multiplied by the inverse of the root first. One of the dispatches that read it writes x, the norm, in both forms.
#include "common.glsl"

#define PACKED 7
#define PACKERS gl_WorkGroupSize.x
#include "packing.glsl"
#include "squares.glsl"

const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

// The same of the second matrix, which has the first one's shape and type.
#define UPS 2
#include "up.glsl"

layout(constant_id = 3) const uint ROWS = 4;
layout(constant_id = 4) const uint TOKENS = 1;
layout(constant_id = 5) const uint KIND = 0;  // compute.Nonlinearity
layout(constant_id = 6) const bool PACK = false;
layout(constant_id = 7) const bool TWO = true;
layout(constant_id = 8) const bool ACTIVE = true;
layout(constant_id = 9) const bool NEXT = false;
layout(constant_id = 10) const bool ROOTED = false;
const bool GATED = TWO;

layout(set = 0, binding = ACTS, std430) readonly buffer ActNumbers { float actNumbers[]; };
layout(set = 0, binding = ACTS, std430) readonly buffer ActWords { uint actWords[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 4, std430) buffer Second { float second[]; }; // the second matrix's result, or total
layout(set = 0, binding = 5, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 6, std430) readonly buffer UpBias { float upBias[]; };
layout(set = 0, binding = 9, std430) writeonly buffer FormQuants { uint formQuants[]; }; // of the norm
layout(set = 0, binding = 9, std430) writeonly buffer FormScales { uvec2 formScales[]; };
layout(set = 0, binding = 10, std430) writeonly buffer Norm { vec4 norm[]; };
layout(set = 0, binding = 11, std430) readonly buffer Residual { vec4 residual[]; };

layout(push_constant) uniform Push {
	Weights w;      // of either matrix
	uint rows;
	uint tokens;    // n
	uint actScales; // where the activations' scales begin, and the result's
	uint scales;
	uint biased, upBiased;
	float threshold, slope, limit;
	uint squares;   // where the sums of squares [tokens, blocks] begin, of NEXT or of ROOTED
	float eps;
	uint writes;    // the norm is written, with scales there
	uint normScales;
} push;

#include "activated.glsl"
#include "next.glsl"

const uint OWN = 32, GROUPS = gl_WorkGroupSize.x / LANES, AT_ONCE = GROUPS * ROWS; // rows
const uint EACH = ROWS * TOKENS, SUMS = TWO ? 2 * EACH : EACH;                     // of an invocation: those of the first matrix, then of the second
const uint QUARTERS = OWN / PART;                                                    // of a block, four elements each

#include "lanesums.glsl"

shared float firsts[OWN * TOKENS], seconds[TWO ? OWN * TOKENS : 1];
shared float squares[ROOTED ? SQUARE_LANES * TOKENS : 1], roots[ROOTED ? TOKENS : 1], inverses[ROOTED ? TOKENS : 1];

// findRoots fills roots and inverses.
void findRoots() {
	uint id = gl_LocalInvocationID.x;
	for (uint i = id; i < SQUARE_LANES * TOKENS; i += gl_WorkGroupSize.x) {
		precise float sum = 0;
		if (i / SQUARE_LANES < push.tokens)
			for (uint b = i % SQUARE_LANES; b < push.w.units; b += SQUARE_LANES)
				sum += actNumbers[push.squares + i / SQUARE_LANES * push.w.units + b];
		squares[i] = sum;
	}
	barrier();
	for (uint t = id; t < TOKENS; t += gl_WorkGroupSize.x) {
		precise float sum = 0;
		for (uint l = 0; l < SQUARE_LANES; l++)
			sum += squares[t * SQUARE_LANES + l];
		roots[t] = rootOf(sum, 32 * push.w.units, push.eps);
		inverses[t] = 1 / roots[t];
	}
	barrier();
}

// writeNorm writes the workgroup's share of x's blocks.
void writeNorm(uint workgroup) {
	uint blocks = push.tokens * push.w.units, workgroups = (push.rows + OWN - 1) / OWN, each = (blocks + workgroups - 1) / workgroups;
	uint end = min((workgroup + 1) * each, blocks) * BLOCK_QUADS;
	for (uint i = workgroup * each * BLOCK_QUADS + gl_LocalInvocationID.x; i < end; i += gl_WorkGroupSize.x) {
		uint block = i / BLOCK_QUADS, t = block / push.w.units;
		precise vec4 weighed = residual[i] * normWeights[i % (push.w.units * BLOCK_QUADS)];
		norm[i] = normed(weighed, roots[t]);
		formQuants[i] = actWords[i];
		if (i % BLOCK_QUADS == 0) {
			uvec2 s = actScales[push.actScales + block];
			formScales[push.normScales + block] = uvec2(floatBitsToUint(rooted(uintBitsToFloat(s.x), inverses[t])), s.y);
		}
	}
}

void main() {
	uint id = gl_LocalInvocationID.x, group = id / LANES, lane = id % LANES, workgroup = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
	uint tile = workgroup * OWN;
	if (tile >= push.rows)
		return;
	[[dont_unroll]] for (uint first = 0; first < OWN; first += AT_ONCE) {
		uint row = tile + first + group * ROWS;
		float sums[SUMS];
		[[unroll]] for (uint i = 0; i < SUMS; i++)
			sums[i] = 0;
		for (uint from = 0; from < push.w.units; from += LANES) {
			uint u = min(from + lane, push.w.units - 1);
			Unit w[ROWS], up[ROWS];
			[[unroll]] for (uint r = 0; r < ROWS; r++) {
				uint at = min(row + r, push.rows - 1);
				w[r] = loadUnit(push.w, at, u);
				if (TWO)
					up[r] = loadUp(push.w, at, u);
			}
			if (ROOTED && from == 0 && first == 0) // while weights are on their way
				findRoots();
			if (from + lane < push.w.units)
				[[unroll]] for (uint t = 0; t < TOKENS; t++) {
					Act a = loadAct(min(t, push.tokens - 1), push.w.units, push.actScales, u);
					if (ROOTED)
						a.d = rooted(a.d, inverses[min(t, push.tokens - 1)]);
					[[unroll]] for (uint r = 0; r < ROWS; r++) {
						sums[t * ROWS + r] = accumulate(w[r], a, sums[t * ROWS + r]);
						if (TWO)
							sums[EACH + t * ROWS + r] = accumulate(up[r], a, sums[EACH + t * ROWS + r]);
					}
				}
		}
		[[unroll]] for (uint from = 0; from < SUMS; from += CHUNK) {
			share(sums, from);
			for (uint i = id; i < GROUPS * CHUNK; i += gl_WorkGroupSize.x) {
				uint of = from + i % CHUNK, t = of % EACH / ROWS, own = first + i / CHUNK * ROWS + of % ROWS, r = min(tile + own, push.rows - 1);
				if (of >= SUMS)
					continue;
				precise float sum = laneSum(i);
				if (of < EACH) {
					if (push.biased != 0)
						sum += bias[r];
					firsts[t * OWN + own] = sum;
				} else {
					if (push.upBiased != 0)
						sum += upBias[r];
					seconds[t * OWN + own] = sum;
				}
			}
		}
	}
	barrier();
	if (ROOTED && push.writes != 0)
		writeNorm(workgroup);
	[[dont_unroll]] for (uint from = 0; from < QUARTERS * TOKENS; from += gl_WorkGroupSize.x) {
		uint i = from + id, t = i / QUARTERS, own = i % QUARTERS * PART, at = t * push.rows + tile + own;
		bool here = i < QUARTERS * TOKENS && t < push.tokens;
		vec4 v = vec4(0);
		if (here) {
			vec4 total = vec4(0);
			[[unroll]] for (uint j = 0; j < PART; j++) {
				float sum = firsts[t * OWN + own + j], other = TWO ? seconds[t * OWN + own + j] : 0;
				v[j] = ACTIVE ? activated(sum, other) : sum;
				if (tile + own + j < push.rows) {
					result[at + j] = v[j];
					if (TWO)
						second[at + j] = other;
					if (NEXT) {
						total[j] = second[at + j] + sum;
						second[at + j] = total[j];
					}
				}
			}
			if (NEXT)
				v = begun(total, (tile + own) / PART, i);
		}
		if (PACK) // rows are whole blocks
			pack(at / PART, here, v, push.scales); // which has barriers
		if (NEXT && here && i % QUARTERS == 0)
			writeSquares(i, t * (push.rows / OWN) + workgroup);
	}
}
