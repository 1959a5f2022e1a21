#include "longproduct.glsl"
#include "piece.glsl"

layout(constant_id = 8) const uint M = 16;
layout(constant_id = 9) const uint N = 16;
layout(constant_id = 10) const uint K = 16;
layout(constant_id = 11) const uint SUBGROUP_ROWS = 32; // of the tile
layout(constant_id = 12) const uint STEP = 32;
layout(constant_id = 13) const uint BUFFERS = 2;
layout(constant_id = 14) const uint WAY = 0; // of sums to memory: variant.go

// The ways. Matrices of sums stay in registers only where the compiler unrolls all loops over them, which depends on what else is in these:
// NVIDIA's has been seen to keep them in memory, at a fifth of the speed.
const uint IN_PHASES = 0;  // by shared memory, as many matrices at once as fit there
const uint ONE_BY_ONE = 1;
const uint DIRECTLY = 2;   // whole tiles are stored as they are and completed in place; others one by one

layout(set = 0, binding = 2, std430) workgroupcoherent buffer OutStored { float stored[]; }; // what other invocations read again

#define Rows fcoopmatNV<16, gl_ScopeSubgroup, M, K>
#define Tokens fcoopmatNV<16, gl_ScopeSubgroup, K, N>
#define Sums fcoopmatNV<32, gl_ScopeSubgroup, M, N>

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP, ABREAST = TILE_ROWS / SUBGROUP_ROWS;
const uint SUBGROUP_TOKENS = TILE_TOKENS / (SUBGROUPS / ABREAST);
const uint MATRICES_ROWS = SUBGROUP_ROWS / M, MATRICES_TOKENS = SUBGROUP_TOKENS / N, MATRICES = MATRICES_ROWS * MATRICES_TOKENS;

// In shared memory halves lie by eight. A row, a token or a neuron has eight more than it needs, which keep it off its neighbour's banks.
const uint PITCH = STEP / 8 + 1, NEURON_PITCH = TILE_ROWS / 8 + 1;
const uint ROW_QUADS = NEURONS ? STEP * NEURON_PITCH : TILE_ROWS * PITCH, TOKEN_QUADS = TILE_TOKENS * PITCH;
const uint SUM_QUADS = M * N / 4; // of a subgroup's matrix of sums on its way to memory
const uint TILE_QUADS = BUFFERS * (ROW_QUADS + TOKEN_QUADS), ALL_SUM_QUADS = SUBGROUPS * SUM_QUADS;

// So many of a subgroup's matrices fit where the tile was.
const uint FIT = TILE_QUADS > ALL_SUM_QUADS ? TILE_QUADS / ALL_SUM_QUADS : 1;

// Where the phases end. There are at most eight: variant.go.
const uint END_0 = 1 * FIT < MATRICES ? 1 * FIT : MATRICES;
const uint END_1 = 2 * FIT < MATRICES ? 2 * FIT : MATRICES;
const uint END_2 = 3 * FIT < MATRICES ? 3 * FIT : MATRICES;
const uint END_3 = 4 * FIT < MATRICES ? 4 * FIT : MATRICES;
const uint END_4 = 5 * FIT < MATRICES ? 5 * FIT : MATRICES;
const uint END_5 = 6 * FIT < MATRICES ? 6 * FIT : MATRICES;
const uint END_6 = 7 * FIT < MATRICES ? 7 * FIT : MATRICES;
const uint END_7 = 8 * FIT < MATRICES ? 8 * FIT : MATRICES;
const uint LANE_QUADS = (SUM_QUADS + SUBGROUP - 1) / SUBGROUP;

shared uvec4 tile[TILE_QUADS > ALL_SUM_QUADS ? TILE_QUADS : ALL_SUM_QUADS];

// Pieces of weights, and quads of activations, that each invocation brings in a step.
const uint STEP_PIECES = (NEURONS ? TILE_ROWS : STEP) / PIECE, STEP_LINES = NEURONS ? STEP : TILE_ROWS;
const uint BRINGS = (STEP_PIECES * STEP_LINES + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint ACT_BRINGS = (TOKEN_QUADS / PITCH * (STEP / 8) + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;

Piece piece[BRINGS];
uvec4 act[ACT_BRINGS];
uint actFrom[ACT_BRINGS]; // where a token's quads begin

uint line(uint i) { return (i * gl_WorkGroupSize.x + gl_LocalInvocationID.x) / STEP_PIECES; }
uint pieceOf(uint i) { return (i * gl_WorkGroupSize.x + gl_LocalInvocationID.x) % STEP_PIECES; }
bool there(uint i) { return STEP_PIECES * STEP_LINES % gl_WorkGroupSize.x == 0 || line(i) < STEP_LINES; }

// place is the row in memory that holds a line of the tile, and the piece of it.
uvec2 place(uint firstRow, uint step, uint i) {
	if (NEURONS)
		return uvec2(min(step * STEP + line(i), push.columns - 1), min(firstRow / PIECE + pieceOf(i), pieces(push.w) - 1));
	return uvec2(weightRow(min(firstRow + line(i), push.rows - 1)), min(step * STEP_PIECES + pieceOf(i), pieces(push.w) - 1));
}

// bring loads what a step multiplies into registers.
void bring(uint firstRow, uint step) {
	[[unroll]] for (uint i = 0; i < BRINGS; i++) {
		if (!there(i))
			continue;
		uvec2 at = place(firstRow, step, i);
		piece[i] = loadPiece(push.w, at.x, at.y);
	}
	[[unroll]] for (uint i = 0; i < ACT_BRINGS; i++) {
		uint quad = (i * gl_WorkGroupSize.x + gl_LocalInvocationID.x) % (STEP / 8);
		act[i] = acts[actFrom[i] + step * (STEP / 8) + quad];
	}
}

// lay writes it to a buffer in shared memory, as halves. What lies beyond the last column is zero.
void lay(uint firstRow, uint step, uint buffer_) {
	uint rows = buffer_ * (ROW_QUADS + TOKEN_QUADS), tokens = rows + ROW_QUADS;
	[[unroll]] for (uint i = 0; i < BRINGS; i++) {
		if (!there(i))
			continue;
		uvec2 at = place(firstRow, step, i);
		uvec4 first, second;
		halvesOfPiece(push.w, piece[i], at.x, at.y, first, second);
		if (NEURONS) {
			uint to = rows + line(i) * NEURON_PITCH;
			tile[to + run(pieceOf(i), 0) / 8] = first;
			if (QUANTISED)
				tile[to + run(pieceOf(i), 1) / 8] = second;
			continue;
		}
		if (step * STEP_PIECES + pieceOf(i) >= pieces(push.w))
			first = second = uvec4(0);
		uint to = rows + line(i) * PITCH;
		tile[to + run(pieceOf(i), 0) / 8] = first;
		if (QUANTISED)
			tile[to + run(pieceOf(i), 1) / 8] = second;
	}
	[[unroll]] for (uint i = 0; i < ACT_BRINGS; i++) {
		uint at = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
		if (TILE_TOKENS * (STEP / 8) % gl_WorkGroupSize.x == 0 || at < TILE_TOKENS * (STEP / 8))
			tile[tokens + at / (STEP / 8) * PITCH + at % (STEP / 8)] = act[i];
	}
}

bool outOfRange(float v) { return (floatBitsToUint(v) & 0x7f800000u) == 0x7f800000u; }

// quickly writes four rows' sums of a token, as far as they are there, and reports whether one has left the range of halves.
bool quickly(uint r, uint t, uint n, vec4 sums) {
	if (t >= n)
		return false;
	uint at = outAt(t, r);
	precise vec4 v = sums * actScales[push.actScales + actRow(t)];
	[[unroll]] for (uint i = 0; i < 4; i++)
		v[i] = weighed(v[i], t);
	if (push.biased != 0)
		[[unroll]] for (uint i = 0; i < 4; i++)
			v[i] += bias[biasAt(min(r + i, push.rows - 1))];
	if (r + 4 <= push.rows && here(r) && here(r + 3) && at % 4 == 0)
		resultQuads[at / 4] = v;
	else
		[[unroll]] for (uint i = 0; i < 4; i++)
			if (r + i < push.rows && here(r + i))
				result[at + i] = v[i];
	return outOfRange(sums.x) || outOfRange(sums.y) || outOfRange(sums.z) || outOfRange(sums.w);
}

// carefully completes what quickly wrote: sums that left the range, and totals.
void carefully(uint r, uint t) {
	if (t >= count() || r >= push.rows || !here(r))
		return;
	uint at = outAt(t, r);
	precise float v = stored[at];
	if (outOfRange(v))
		v = finished(r, t, actScales[push.actScales + actRow(t)], v);
	result[at] = v;
	if (ADDED)
		total[at] += v;
}

// placeOf is the first row, and the token, of a quad of a subgroup's sums.
uvec2 placeOf(uint quad) {
	uint i = quad / SUM_QUADS, j = quad % SUM_QUADS;
	return uvec2(i % MATRICES_ROWS * M + j % (M / 4) * 4, i / MATRICES_ROWS * N + j / (M / 4));
}

#define PHASE(p) \
	if (p * FIT < MATRICES) { \
		[[unroll]] for (uint i = p * FIT; i < END_##p; i++) \
			coopMatStoreNV(sums[i], tile, mine + (i - p * FIT) * SUM_QUADS, M / 4, true); \
		subgroupBarrier(); \
		[[dont_unroll]] for (uint j = lane; j < (END_##p - p * FIT) * SUM_QUADS; j += SUBGROUP) { \
			uvec2 at = corner + placeOf(p * FIT * SUM_QUADS + j); \
			left = quickly(at.x, at.y, n, uintBitsToFloat(tile[mine + j])) || left; \
		} \
		subgroupBarrier(); \
	}

void main() {
	uint firstToken = gl_WorkGroupID.x * TILE_TOKENS, firstRow = gl_WorkGroupID.y * TILE_ROWS;
	if (firstToken >= count())
		return;
	uint row = gl_SubgroupID % ABREAST * SUBGROUP_ROWS, token = gl_SubgroupID / ABREAST * SUBGROUP_TOKENS;
	[[unroll]] for (uint i = 0; i < ACT_BRINGS; i++) {
		uint t = (i * gl_WorkGroupSize.x + gl_LocalInvocationID.x) / (STEP / 8);
		actFrom[i] = actRow(min(firstToken + t, count() - 1)) * actQuads();
	}
	Sums sums[MATRICES];
	[[unroll]] for (uint i = 0; i < MATRICES; i++)
		sums[i] = Sums(0);
	uint steps = (push.columns + STEP - 1) / STEP;
	bring(firstRow, 0);
	lay(firstRow, 0, 0);
	barrier();
	for (uint step = 0; step < steps; step++) {
		uint next = min(step + 1, steps - 1), rows = step % BUFFERS * (ROW_QUADS + TOKEN_QUADS), tokens = rows + ROW_QUADS;
		bring(firstRow, next);
		[[unroll]] for (uint k = 0; k < STEP; k += K) {
			Rows w[MATRICES_ROWS];
			[[unroll]] for (uint r = 0; r < MATRICES_ROWS; r++) {
				if (NEURONS)
					coopMatLoadNV(w[r], tile, rows + k * NEURON_PITCH + (row + r * M) / 8, NEURON_PITCH, true);
				else
					coopMatLoadNV(w[r], tile, rows + (row + r * M) * PITCH + k / 8, PITCH, false);
			}
			[[unroll]] for (uint t = 0; t < MATRICES_TOKENS; t++) {
				Tokens a;
				coopMatLoadNV(a, tile, tokens + (token + t * N) * PITCH + k / 8, PITCH, true);
				[[unroll]] for (uint r = 0; r < MATRICES_ROWS; r++)
					sums[t * MATRICES_ROWS + r] = coopMatMulAddNV(w[r], a, sums[t * MATRICES_ROWS + r]);
			}
		}
		if (BUFFERS == 1)
			barrier();
		lay(firstRow, next, (step + 1) % BUFFERS);
		barrier();
	}
	uint lane = gl_SubgroupInvocationID, n = count();
	uvec2 corner = uvec2(firstRow + row, firstToken + token);
	bool left = false;
#ifdef BY_EXPERT
	const bool whole = false;
#else
	bool whole = firstRow + TILE_ROWS <= push.rows && firstToken + TILE_TOKENS <= n;
#endif
	if (WAY == IN_PHASES) {
		uint mine = gl_SubgroupID * FIT * SUM_QUADS;
		PHASE(0) PHASE(1) PHASE(2) PHASE(3) PHASE(4) PHASE(5) PHASE(6) PHASE(7)
	} else if (WAY == DIRECTLY && whole) {
		[[unroll]] for (uint i = 0; i < MATRICES; i++)
			coopMatStoreNV(sums[i], stored, outAt(corner.y + i / MATRICES_ROWS * N, corner.x + i % MATRICES_ROWS * M), push.stride, true);
		subgroupBarrier();
		[[dont_unroll]] for (uint j = lane; j < MATRICES * SUM_QUADS; j += SUBGROUP) {
			uvec2 at = corner + placeOf(j);
			uint to = outAt(at.y, at.x);
			left = quickly(at.x, at.y, n, vec4(stored[to], stored[to + 1], stored[to + 2], stored[to + 3])) || left;
		}
	} else {
		uint mine = gl_SubgroupID * SUM_QUADS;
		[[unroll]] for (uint i = 0; i < MATRICES; i++) {
			coopMatStoreNV(sums[i], tile, mine, M / 4, true);
			subgroupBarrier();
			[[unroll]] for (uint s = 0; s < LANE_QUADS; s++) {
				uint j = s * SUBGROUP + lane;
				uvec2 at = corner + uvec2(i % MATRICES_ROWS * M + j % (M / 4) * 4, i / MATRICES_ROWS * N + j / (M / 4));
				if (SUM_QUADS % SUBGROUP == 0 || j < SUM_QUADS)
					left = quickly(at.x, at.y, n, uintBitsToFloat(tile[mine + j])) || left;
			}
			subgroupBarrier();
		}
	}
	if (ADDED || subgroupOr(uint(left)) != 0)
		[[dont_unroll]] for (uint j = lane; j < MATRICES * SUM_QUADS; j += SUBGROUP) {
			uvec2 at = corner + placeOf(j);
			[[dont_unroll]] for (uint k = 0; k < 4; k++)
				carefully(at.x + k, at.y);
		}
}
