// out [n, rows] = x·Wᵀ + bias for many rows of x, in tiles of TILE rows of the matrix and TILE tokens.
//
// With BY_HEAD defined there is a product for each head, with BY_EXPERT one for each expert: operands.glsl. A sum's order is that of product.glsl: a step takes one unit of every row, and units come lane by lane.
#include "common.glsl"

layout(constant_id = 3) const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

layout(constant_id = 4) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 2, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) buffer Total { float total[]; };

layout(push_constant) uniform Push { // as in matvec.glsl
	Weights w;
	uint rows;
	uint firstRow;
	uint stride;
	uint tokens;
	uint firstAct;
	uint firstOut;
	uint actScales;
	uint biased;
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

// The workgroup is SIDE·SIDE invocations; each has EACH·EACH outputs, SIDE apart.
const uint SIDE = 16, EACH = 4, TILE = SIDE * EACH;

// A unit in shared memory is QUADS of four words, floats or bytes by four; one more keeps rows off each other's banks.
const uint QUADS = QUANTISED ? 2 : UNIT / 4, PITCH = QUADS + 1;

shared ivec4 rowQuads[TILE * PITCH];
shared ivec4 tokenQuads[TILE * PITCH];
shared Scale rowScales[TILE];
shared uvec2 tokenScales[TILE];

// stageRows fills shared memory with unit u of the tile's rows, four invocations for each row.
void stageRows(uint firstRow, uint u) {
	uint i = gl_LocalInvocationID.x / 4, k = gl_LocalInvocationID.x % 4;
	uint unit = weightRow(min(firstRow + i, push.rows - 1)) * push.w.units + u;
	if (QUANTISED) {
		ivec2 q = quantsOf(push.w, unit, k);
		rowQuads[i * PITCH][k] = q.x;
		rowQuads[i * PITCH + 1][k] = q.y;
		if (k == 0)
			rowScales[i] = scaleOf(push.w, unit);
	} else if (k < UNIT / 8) {
		float f[8];
		floatsOf(unit * (UNIT / 8) + k, f);
		rowQuads[i * PITCH + 2 * k] = floatBitsToInt(vec4(f[0], f[1], f[2], f[3]));
		rowQuads[i * PITCH + 2 * k + 1] = floatBitsToInt(vec4(f[4], f[5], f[6], f[7]));
	}
}

// stageTokens does so with the tokens' activations.
void stageTokens(uint firstToken, uint u) {
	uint i = gl_LocalInvocationID.x / 4, k = gl_LocalInvocationID.x % 4;
	uint unit = actRow(min(firstToken + i, count() - 1)) * push.w.units + u;
	if (k < QUADS)
		tokenQuads[i * PITCH + k] = QUANTISED ? actQuants[2 * unit + k] : floatBitsToInt(actFloat(unit * QUADS + k));
	if (QUANTISED && k == 2)
		tokenScales[i] = actScales[push.actScales + unit];
}

int dot16(ivec4 a, ivec4 b) { return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w); }

// multiplyQuants adds the staged unit's products to sums.
void multiplyQuants(uint x, uint y, inout float sums[EACH * EACH]) {
	int low[EACH * EACH], high[EACH * EACH];
	[[unroll]] for (uint h = 0; h < 2; h++) {
		ivec4 w[EACH], a[EACH];
		[[unroll]] for (uint i = 0; i < EACH; i++) {
			w[i] = rowQuads[(x + i * SIDE) * PITCH + h];
			a[i] = tokenQuads[(y + i * SIDE) * PITCH + h];
		}
		[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
			if (h == 0)
				low[i] = dot16(w[i % EACH], a[i / EACH]);
			else
				high[i] = dot16(w[i % EACH], a[i / EACH]);
	}
	[[unroll]] for (uint r = 0; r < EACH; r++) {
		Scale s = rowScales[x + r * SIDE];
		[[unroll]] for (uint t = 0; t < EACH; t++) {
			uvec2 token = tokenScales[y + t * SIDE];
			uint i = t * EACH + r;
			sums[i] = scaled(s, uintBitsToFloat(token.x), halfSums(token.y), low[i], high[i], sums[i]);
		}
	}
}

void multiplyFloats(uint x, uint y, inout float sums[EACH * EACH]) {
	[[unroll]] for (uint k = 0; k < QUADS; k++) {
		vec4 w[EACH], a[EACH];
		[[unroll]] for (uint i = 0; i < EACH; i++) {
			w[i] = intBitsToFloat(rowQuads[(x + i * SIDE) * PITCH + k]);
			a[i] = intBitsToFloat(tokenQuads[(y + i * SIDE) * PITCH + k]);
		}
		[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
			[[unroll]] for (uint j = 0; j < 4; j++) {
				precise float sum = fma(w[i % EACH][j], a[i / EACH][j], sums[i]);
				sums[i] = sum;
			}
	}
}

void main() {
	uint x = gl_LocalInvocationID.x % SIDE, y = gl_LocalInvocationID.x / SIDE;
	uint firstRow = gl_WorkGroupID.x * TILE, firstToken = gl_WorkGroupID.y * TILE;
	if (firstToken >= count())
		return;
	float totals[EACH * EACH];
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
		totals[i] = 0;
	for (uint lane = 0; lane < min(LANES, push.w.units); lane++) {
		float sums[EACH * EACH];
		[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
			sums[i] = 0;
		for (uint u = lane; u < push.w.units; u += LANES) {
			barrier();
			stageRows(firstRow, u);
			stageTokens(firstToken, u);
			barrier();
			if (QUANTISED)
				multiplyQuants(x, y, sums);
			else
				multiplyFloats(x, y, sums);
		}
		[[unroll]] for (uint i = 0; i < EACH * EACH; i++) {
			precise float sum = totals[i] + sums[i];
			totals[i] = sum;
		}
	}
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++) {
		uint t = firstToken + y + i / EACH * SIDE, r = firstRow + x + i % EACH * SIDE;
		if (t >= count() || r >= push.rows || !here(r))
			continue;
		precise float sum = weighed(totals[i], t);
		if (push.biased != 0)
			sum += bias[biasAt(r)];
		uint at = outAt(t, r);
		result[at] = sum;
		if (ADDED)
			total[at] += sum;
	}
}
