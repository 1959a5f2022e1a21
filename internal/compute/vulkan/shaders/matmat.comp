// out [n, rows] = x·Wᵀ + bias for many rows of x, in tiles of TILE rows of the matrix and TILE tokens.
//
// A sum's order is that of product.glsl: a step takes one unit of every row, and units come lane by lane.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

layout(set = 0, binding = 2, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };

layout(push_constant) uniform Push { // as in matvec.comp
	Weights w;
	uint rows;
	uint firstRow;
	uint stride;
	uint tokens;
	uint firstAct;
	uint firstOut;
	uint actScales;
	uint biased;
} push;

// The workgroup is SIDE·SIDE invocations; each has EACH·EACH outputs, SIDE apart.
const uint SIDE = 16, EACH = 4, TILE = SIDE * EACH;

// Words of a unit in shared memory: element by element of all rows for floats, bytes by four for quantised types.
const uint DEPTH = QUANTISED ? 8 : UNIT;

shared int rowWords[DEPTH * (TILE + 1)];
shared int tokenWords[DEPTH * (TILE + 1)];
shared Scale rowScales[TILE];
shared vec2 tokenScales[TILE]; // scale, sum

uint at(uint word, uint i) { return word * (TILE + 1) + i; }

// stageRows fills shared memory with unit u of the tile's rows: four invocations for each row.
void stageRows(uint firstRow, uint u) {
	uint i = gl_LocalInvocationID.x / 4, k = gl_LocalInvocationID.x % 4;
	uint unit = min(firstRow + i, push.rows - 1) * push.w.units + u;
	if (QUANTISED) {
		ivec2 q = quantsOf(push.w, unit, k);
		rowWords[at(k, i)] = q.x;
		rowWords[at(k + 4, i)] = q.y;
		if (k == 0)
			rowScales[i] = scaleOf(push.w, unit);
	} else if (k < UNIT / 8) {
		float f[8];
		floatsOf(unit * (UNIT / 8) + k, f);
		[[unroll]] for (uint j = 0; j < 8; j++)
			rowWords[at(8 * k + j, i)] = floatBitsToInt(f[j]);
	}
}

void stageTokens(uint firstToken, uint u) {
	uint i = gl_LocalInvocationID.x / 4, k = gl_LocalInvocationID.x % 4;
	uint unit = (push.firstAct + min(firstToken + i, push.tokens - 1)) * push.w.units + u;
	if (QUANTISED) {
		if (k < 2) {
			ivec4 q = actQuants[2 * unit + k];
			[[unroll]] for (uint j = 0; j < 4; j++)
				tokenWords[at(4 * k + j, i)] = q[j];
		} else if (k == 2) {
			uvec2 s = actScales[push.actScales + unit];
			tokenScales[i] = vec2(uintBitsToFloat(s.x), float(int(s.y)));
		}
	} else if (k < UNIT / 4) {
		vec4 v = actFloats[unit * (UNIT / 4) + k];
		[[unroll]] for (uint j = 0; j < 4; j++)
			tokenWords[at(4 * k + j, i)] = floatBitsToInt(v[j]);
	}
}

// multiplyQuants adds the staged unit's products to sums.
void multiplyQuants(uint x, uint y, inout float sums[EACH * EACH]) {
	int low[EACH * EACH], high[EACH * EACH];
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
		low[i] = high[i] = 0;
	[[unroll]] for (uint k = 0; k < 8; k++) {
		int w[EACH], a[EACH];
		[[unroll]] for (uint i = 0; i < EACH; i++) {
			w[i] = rowWords[at(k, x + i * SIDE)];
			a[i] = tokenWords[at(k, y + i * SIDE)];
		}
		[[unroll]] for (uint t = 0; t < EACH; t++)
			[[unroll]] for (uint r = 0; r < EACH; r++)
				if (k < 4)
					low[t * EACH + r] += dot4(w[r], a[t]);
				else
					high[t * EACH + r] += dot4(w[r], a[t]);
	}
	[[unroll]] for (uint r = 0; r < EACH; r++) {
		Scale s = rowScales[x + r * SIDE];
		[[unroll]] for (uint t = 0; t < EACH; t++) {
			vec2 token = tokenScales[y + t * SIDE];
			uint i = t * EACH + r;
			sums[i] = scaled(s, token.x, int(token.y), low[i], high[i], sums[i]);
		}
	}
}

void multiplyFloats(uint x, uint y, inout float sums[EACH * EACH]) {
	[[unroll]] for (uint k = 0; k < DEPTH; k++) {
		float w[EACH], a[EACH];
		[[unroll]] for (uint i = 0; i < EACH; i++) {
			w[i] = intBitsToFloat(rowWords[at(k, x + i * SIDE)]);
			a[i] = intBitsToFloat(tokenWords[at(k, y + i * SIDE)]);
		}
		[[unroll]] for (uint t = 0; t < EACH; t++)
			[[unroll]] for (uint r = 0; r < EACH; r++) {
				precise float sum = fma(w[r], a[t], sums[t * EACH + r]);
				sums[t * EACH + r] = sum;
			}
	}
}

void main() {
	uint x = gl_LocalInvocationID.x % SIDE, y = gl_LocalInvocationID.x / SIDE;
	uint firstRow = gl_WorkGroupID.x * TILE, firstToken = gl_WorkGroupID.y * TILE;
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
			precise float total = totals[i] + sums[i];
			totals[i] = total;
		}
	}
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++) {
		uint t = firstToken + y + i / EACH * SIDE, r = firstRow + x + i % EACH * SIDE;
		if (t >= push.tokens || r >= push.rows)
			continue;
		precise float sum = totals[i];
		if (push.biased != 0)
			sum += bias[push.firstRow + r];
		result[(push.firstOut + t) * push.stride + push.firstRow + r] = sum;
	}
}
