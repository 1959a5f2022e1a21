// Tiles of out [n, rows] = x·Wᵀ + bias for long prompts, in halves: TILE_ROWS rows of the matrix and TILE_TOKENS tokens, STEP columns
// of both in shared memory at a time. Weights are decoded to halves; activations are halves whose tokens were scaled by powers of two
// (halve.comp), so that none is too large. Sums are floats.
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl" // constant 3

layout(constant_id = 4) const bool NEURONS = false; // W is down columns by neuron, [columns, rows] in memory
layout(constant_id = 5) const uint TILE_ROWS = 64;
layout(constant_id = 6) const uint TILE_TOKENS = 64;
layout(constant_id = 7) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 1, std430) readonly buffer Acts { uvec4 acts[]; }; // [tokens, steps·STEP] halves
layout(set = 0, binding = 1, std430) readonly buffer ActScales { float actScales[]; };
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
	uint columns;   // of the matrix
} push;

const uint STEP = 32;

// In shared memory halves lie by four. A row or a token has STEP of them, and eight more keep it off its neighbour's banks. Neurons have
// TILE_ROWS each where they can be read so; elsewhere they are turned into rows.
const uint PITCH = STEP / 4 + 2;
#ifdef COOPERATIVE
const uint NEURON_PITCH = TILE_ROWS / 4 + 2;
const uint ROW_QUADS = NEURONS ? STEP * NEURON_PITCH : TILE_ROWS * PITCH;
#define Quad uvec2 // the bits of four halves
Quad quad(f16vec4 v) { return uvec2(packFloat2x16(v.xy), packFloat2x16(v.zw)); }
Quad quadOf(uvec2 bits) { return bits; }
#else
const uint ROW_QUADS = TILE_ROWS * PITCH;
#define Quad f16vec4
Quad quad(f16vec4 v) { return v; }
Quad quadOf(uvec2 bits) { return f16vec4(unpackFloat2x16(bits.x), unpackFloat2x16(bits.y)); }
#endif

shared Quad rowHalves[ROW_QUADS];
shared Quad tokenHalves[TILE_TOKENS * PITCH];

// rowSlot decodes a slot of a row of memory.
void rowSlot(uint row, uint slot, out Quad low, out Quad high) {
	if (TYPE == F16) {
		uvec4 q = weightQuads[row * slots(push.w) + slot];
		low = quadOf(q.xy);
		high = quadOf(q.zw);
		return;
	}
	float f[8];
	outputs(push.w, row, slot, f);
	low = quad(f16vec4(f[0], f[1], f[2], f[3]));
	high = quad(f16vec4(f[4], f[5], f[6], f[7]));
}

// stageRows fills shared memory with a step of the tile's rows: each invocation a slot, of eight elements.
void stageRows(uint firstRow, uint step) {
	for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS * (STEP / 8); i += gl_WorkGroupSize.x) {
		uint row = i / (STEP / 8), k = i % (STEP / 8), slot = step * (STEP / 8) + k;
		Quad low = Quad(0), high = Quad(0);
		if (slot < slots(push.w))
			rowSlot(min(firstRow + row, push.rows - 1), slot, low, high);
		rowHalves[row * PITCH + column(k, 0) / 4] = low;
		rowHalves[row * PITCH + column(k, 4) / 4] = high;
	}
}

// stageNeurons does so with neurons' outputs.
void stageNeurons(uint firstRow, uint step) {
	const uint SLOTS = TILE_ROWS / 8;
	for (uint i = gl_LocalInvocationID.x; i < STEP * SLOTS; i += gl_WorkGroupSize.x) {
		uint n = i / SLOTS, k = i % SLOTS;
		Quad low, high;
		rowSlot(min(step * STEP + n, push.columns - 1), min(firstRow / 8 + k, slots(push.w) - 1), low, high);
#ifdef COOPERATIVE
		rowHalves[n * NEURON_PITCH + column(k, 0) / 4] = low;
		rowHalves[n * NEURON_PITCH + column(k, 4) / 4] = high;
#else
		[[unroll]] for (uint j = 0; j < 4; j++) {
			rowHalves[(column(k, 0) + j) * PITCH + n / 4][n % 4] = low[j];
			rowHalves[(column(k, 4) + j) * PITCH + n / 4][n % 4] = high[j];
		}
#endif
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
		uvec4 q = acts[((push.firstAct + min(firstToken + token, push.tokens - 1)) * steps() + step) * (STEP / 8) + k];
		tokenHalves[token * PITCH + 2 * k] = quadOf(q.xy);
		tokenHalves[token * PITCH + 2 * k + 1] = quadOf(q.zw);
	}
}

// again is the sum of row r and token t in floats alone.
float again(uint r, uint t) {
	float sum = 0, f[8];
	uint act = (push.firstAct + t) * steps() * (STEP / 8);
	// Row r lies in a slot's element.
	uint slot = QUANTISED ? r / 32 * 4 + r % 16 / 4 : r / 8, element = QUANTISED ? r % 4 + r % 32 / 16 * 4 : r % 8;
	for (uint k = 0; k < (NEURONS ? push.columns : slots(push.w) * 8); k++) {
		float w;
		if (NEURONS) {
			outputs(push.w, k, slot, f);
			w = f[element];
		} else {
			uint at = QUANTISED ? k / 32 * 4 + k % 16 / 4 : k / 8;
			outputs(push.w, r, at, f);
			w = f[QUANTISED ? k % 4 + k % 32 / 16 * 4 : k % 8];
		}
		sum = fma(w, unpackHalf2x16(acts[act + k / 8][k % 8 / 2])[k % 2], sum);
	}
	return sum;
}

// put writes the sum of row r and token t, if they are there. One that left the range of halves on its way is summed again.
void put(uint r, uint t, float sum) {
	if (t >= push.tokens || r >= push.rows)
		return;
	if ((floatBitsToUint(sum) & 0x7f800000u) == 0x7f800000u)
		sum = again(r, t);
	precise float v = sum * actScales[push.actScales + push.firstAct + t];
	if (push.biased != 0)
		v += bias[push.firstRow + r];
	uint at = (push.firstOut + t) * push.stride + push.firstRow + r;
	result[at] = v;
	if (ADDED)
		total[at] += v;
}
