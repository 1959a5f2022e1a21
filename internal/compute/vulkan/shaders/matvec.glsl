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
layout(constant_id = 7) const uint TEAMS = 1;
layout(constant_id = 8) const uint AT_ONCE = 1; // of an invocation's sums that shared memory has room for; a divisor of SUMS

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

#ifdef SORTED
const bool PARTLY = true; // most experts have few tokens
#else
const bool PARTLY = false;
#endif

// shares is how many workgroups divide the tokens. How many an expert has is known to them alone.
#ifdef BY_EXPERT
uint shares() { return 1; }
#else
uint shares() { return (push.tokens + TEAMS * TOKENS - 1) / (TEAMS * TOKENS); }
#endif

// LANES invocations are a group. TEAMS groups sum the same rows, each for TOKENS tokens of its own: they load the same weights at about the same time.
const uint GROUPS = gl_WorkGroupSize.x / LANES, TILE = GROUPS / TEAMS * ROWS;
const uint SUMS = ROWS * TOKENS; // of an invocation

shared float parts[GROUPS * AT_ONCE * (LANES + 1)]; // one more, for shared memory's banks

// multiply sums the products of the workgroup's rows, from tile on, with tokens from share on.
void multiply(uint tile, uint share) {
	uint group = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES, n = count();
	uint row = tile + group / TEAMS * ROWS, token = share + group % TEAMS * TOKENS;
	uint mine = token < n ? min(n - token, TOKENS) : 0;
	float sums[SUMS];
	[[unroll]] for (uint i = 0; i < SUMS; i++)
		sums[i] = 0;
	for (uint u = mine > 0 ? lane : push.w.units; u < push.w.units; u += LANES) {
		Unit w[ROWS];
		[[unroll]] for (uint r = 0; r < ROWS; r++)
			w[r] = loadUnit(push.w, weightRow(min(row + r, push.rows - 1)), u);
		[[unroll]] for (uint t = 0; t < TOKENS; t++) {
			if (PARTLY && t >= mine)
				break;
			Act a = loadAct(actRow(token + min(t, mine - 1)), push.w.units, push.actScales, u);
			[[unroll]] for (uint r = 0; r < ROWS; r++)
				sums[t * ROWS + r] = accumulate(w[r], a, sums[t * ROWS + r]);
		}
	}
	[[unroll]] for (uint first = 0; first < SUMS; first += AT_ONCE) {
		barrier();
		[[unroll]] for (uint i = 0; i < AT_ONCE; i++)
			parts[(group * AT_ONCE + i) * (LANES + 1) + lane] = sums[first + i];
		barrier();
		for (uint i = gl_LocalInvocationID.x; i < GROUPS * AT_ONCE; i += gl_WorkGroupSize.x) {
			uint of = i / AT_ONCE, at = first + i % AT_ONCE;
			uint t = share + of % TEAMS * TOKENS + at / ROWS, r = tile + of / TEAMS * ROWS + at % ROWS;
			if (t >= n || r >= push.rows || !here(r))
				continue;
			precise float sum = 0;
			for (uint l = 0; l < LANES; l++)
				sum += parts[i * (LANES + 1) + l];
			sum = weighed(sum, t);
			if (push.biased != 0)
				sum += bias[biasAt(r)];
			uint to = outAt(t, r);
			result[to] = sum;
			if (ADDED)
				total[to] += sum;
		}
	}
}

void main() {
	// Workgroups for other tokens of the same rows are neighbours, so that they find the weights in caches.
	uint id = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x, n = shares();
	uint tile = id / n * TILE;
	if (tile >= push.rows)
		return;
	for (uint share = id % n * TEAMS * TOKENS; share < count(); share += n * TEAMS * TOKENS)
		multiply(tile, share);
}
