// Tiles of halves by ordinary arithmetic: products of two halves are floats, which hold them exactly, and so are sums; or, PACKED, an
// invocation multiplies and adds two columns at once, and a step's sums are halves.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "halftile.glsl"

layout(constant_id = 8) const bool PACKED = false;

// The workgroup is SIDE·SIDE invocations; each has EACH_ROWS·EACH_TOKENS outputs, SIDE apart.
const uint SIDE = 16, EACH_ROWS = TILE_ROWS / SIDE, EACH_TOKENS = TILE_TOKENS / SIDE, EACH = EACH_ROWS * EACH_TOKENS;

void multiply(uint x, uint y, inout float sums[EACH]) {
	f16vec2 partial[EACH];
	[[unroll]] for (uint i = 0; i < EACH; i++)
		partial[i] = f16vec2(0);
	for (uint k = 0; k < STEP / 4; k++) {
		f16vec4 w[EACH_ROWS];
		[[unroll]] for (uint r = 0; r < EACH_ROWS; r++)
			w[r] = rowHalves[(x + r * SIDE) * PITCH + k];
		[[unroll]] for (uint t = 0; t < EACH_TOKENS; t++) {
			f16vec4 a = tokenHalves[(y + t * SIDE) * PITCH + k];
			[[unroll]] for (uint r = 0; r < EACH_ROWS; r++) {
				uint i = t * EACH_ROWS + r;
				if (PACKED)
					partial[i] = fma(w[r].zw, a.zw, fma(w[r].xy, a.xy, partial[i]));
				else
					[[unroll]] for (uint j = 0; j < 4; j++)
						sums[i] = fma(float(w[r][j]), float(a[j]), sums[i]);
			}
		}
	}
	if (PACKED)
		[[unroll]] for (uint i = 0; i < EACH; i++)
			sums[i] += float(partial[i].x) + float(partial[i].y);
}

void main() {
	uint x = gl_LocalInvocationID.x % SIDE, y = gl_LocalInvocationID.x / SIDE;
	uint firstToken = gl_WorkGroupID.x * TILE_TOKENS, firstRow = gl_WorkGroupID.y * TILE_ROWS;
	float sums[EACH];
	[[unroll]] for (uint i = 0; i < EACH; i++)
		sums[i] = 0;
	for (uint step = 0; step < steps(); step++) {
		barrier();
		stage(firstRow, firstToken, step);
		barrier();
		multiply(x, y, sums);
	}
	[[unroll]] for (uint i = 0; i < EACH; i++)
		put(firstRow + x + i % EACH_ROWS * SIDE, firstToken + y + i / EACH_ROWS * SIDE, sums[i]);
}
