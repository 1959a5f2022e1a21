// Tiles of longproduct.glsl by ordinary arithmetic: STEP columns of TILE_ROWS rows and of TILE_TOKENS tokens in shared memory at a time.
#include "longproduct.glsl"

const uint STEP = 32;

// In shared memory halves lie by four. A row or a token has STEP of them, and eight more keep it off its neighbour's banks.
const uint PITCH = STEP / 4 + 2;

shared f16vec4 rowHalves[TILE_ROWS * PITCH];
shared f16vec4 tokenHalves[TILE_TOKENS * PITCH];

f16vec4 quadOf(uvec2 bits) { return f16vec4(unpackFloat2x16(bits.x), unpackFloat2x16(bits.y)); }

// rowSlot decodes a slot of a row of memory.
void rowSlot(uint row, uint slot, out f16vec4 low, out f16vec4 high) {
	if (TYPE == F16) {
		uvec4 q = weightQuads[row * slots(push.w) + slot];
		low = quadOf(q.xy);
		high = quadOf(q.zw);
		return;
	}
	float f[8];
	outputs(push.w, row, slot, f);
	low = f16vec4(f[0], f[1], f[2], f[3]);
	high = f16vec4(f[4], f[5], f[6], f[7]);
}

// stageRows fills shared memory with a step of the tile's rows: each invocation a slot, of eight elements.
void stageRows(uint firstRow, uint step) {
	for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS * (STEP / 8); i += gl_WorkGroupSize.x) {
		uint row = i / (STEP / 8), k = i % (STEP / 8), slot = step * (STEP / 8) + k;
		f16vec4 low = f16vec4(0), high = f16vec4(0);
		if (slot < slots(push.w))
			rowSlot(weightRow(min(firstRow + row, push.rows - 1)), slot, low, high);
		rowHalves[row * PITCH + column(k, 0) / 4] = low;
		rowHalves[row * PITCH + column(k, 4) / 4] = high;
	}
}

// stageNeurons does so with neurons' outputs, which it turns into rows.
void stageNeurons(uint firstRow, uint step) {
	const uint SLOTS = TILE_ROWS / 8;
	for (uint i = gl_LocalInvocationID.x; i < STEP * SLOTS; i += gl_WorkGroupSize.x) {
		uint n = i / SLOTS, k = i % SLOTS;
		f16vec4 low, high;
		rowSlot(min(step * STEP + n, push.columns - 1), min(firstRow / 8 + k, slots(push.w) - 1), low, high);
		[[unroll]] for (uint j = 0; j < 4; j++) {
			rowHalves[(column(k, 0) + j) * PITCH + n / 4][n % 4] = low[j];
			rowHalves[(column(k, 4) + j) * PITCH + n / 4][n % 4] = high[j];
		}
	}
}

uint steps() { return (push.columns + STEP - 1) / STEP; }

// stage fills shared memory with a step of the tile.
void stage(uint firstRow, uint firstToken, uint step) {
	if (NEURONS)
		stageNeurons(firstRow, step);
	else
		stageRows(firstRow, step);
	for (uint i = gl_LocalInvocationID.x; i < TILE_TOKENS * (STEP / 8); i += gl_WorkGroupSize.x) {
		uint token = i / (STEP / 8), k = i % (STEP / 8);
		uvec4 q = acts[actRow(min(firstToken + token, count() - 1)) * actQuads() + step * (STEP / 8) + k];
		tokenHalves[token * PITCH + 2 * k] = quadOf(q.xy);
		tokenHalves[token * PITCH + 2 * k + 1] = quadOf(q.zw);
	}
}
