#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Up to four operations on rows [rows, cols], each on what the one before gave, in one dispatch: sums with other rows or vectors, norms, products with
// numbers, vectors or the activation of other rows.
// A workgroup has a row, and keeps it in registers. With PACK the last result is written in eight bits besides.

#define PACKED 10
#define PACKERS gl_WorkGroupSize.x
#include "packing.glsl"
#include "mean.glsl"
#include "squares.glsl"
#include "activation.glsl"

layout(constant_id = 2) const uint QUADS = 1; // four elements each, of an invocation
layout(constant_id = 3) const uint STEPS = 0; // four bits for each operation, the first in the lowest
layout(constant_id = 4) const bool PACK = false; // cols is a multiple of 32
const uint ADD = 1, RMS = 2, LAYER = 3, SCALE = 4, MULTIPLY = 5, GATE = 6, SHIFT = 7; // chain.go has them, too
const uint MOST = 4;

layout(set = 0, binding = 0, std430) readonly buffer X { vec4 x[]; };
// Of each operation its result, and its operand: rows of an ADD or a GATE, or a vector [cols], of a MULTIPLY [rows in turn, cols].
layout(set = 0, binding = 1, std430) writeonly buffer Result0 { vec4 result0[]; };
layout(set = 0, binding = 2, std430) readonly buffer Operand0 { vec4 operand0[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result1 { vec4 result1[]; };
layout(set = 0, binding = 4, std430) readonly buffer Operand1 { vec4 operand1[]; };
layout(set = 0, binding = 5, std430) writeonly buffer Result2 { vec4 result2[]; };
layout(set = 0, binding = 6, std430) readonly buffer Operand2 { vec4 operand2[]; };
layout(set = 0, binding = 7, std430) writeonly buffer Result3 { vec4 result3[]; };
layout(set = 0, binding = 8, std430) readonly buffer Operand3 { vec4 operand3[]; };
layout(set = 0, binding = 9, std430) readonly buffer Bias { vec4 biases[]; }; // of a LAYER

layout(push_constant) uniform Push {
	uint rows, quads; // of a row
	uint scales;
	uint biased;      // a bit for each operation
	float number[4];  // of each: a norm's eps, the factor of a SCALE, the bits of a GATE's compute.Nonlinearity and of the rows of a MULTIPLY's operand
} push;

uint kindOf(uint i) { return bitfieldExtract(STEPS, int(4 * i), 4); }
vec4 operandOf(uint i, uint at) { return i == 0 ? operand0[at] : i == 1 ? operand1[at] : i == 2 ? operand2[at] : operand3[at]; }
void keep(uint i, uint at, vec4 v) {
	if (i == 0)
		result0[at] = v;
	else if (i == 1)
		result1[at] = v;
	else if (i == 2)
		result2[at] = v;
	else
		result3[at] = v;
}

// gated is act(gate)·v.
vec4 gated(uint kind, vec4 gate, vec4 v) {
	Nonlinearity act = Nonlinearity(kind, 0, 0, 0);
	vec4 y;
	for (uint j = 0; j < 4; j++) {
		precise float a = activation(act, gate[j]);
		a *= factor(act, v[j]);
		y[j] = a;
	}
	return y;
}

shared float squares[BLOCK_QUADS * (gl_WorkGroupSize.x / BLOCK_QUADS) + gl_WorkGroupSize.x / BLOCK_QUADS], lanes[SQUARE_LANES]; // one more for each block, for the banks

// rowSquares is the sum of the squares of a row's elements, in every invocation, which have QUADS of its quads each.
float rowSquares(vec4 v[QUADS]) {
	uint id = gl_LocalInvocationID.x;
	precise float sum = 0; // of a lane
	[[unroll]] for (uint q = 0; q < QUADS; q++) {
		barrier();
		squares[id + id / BLOCK_QUADS] = quadSquares(v[q]);
		barrier();
		uint first = q * (gl_WorkGroupSize.x / BLOCK_QUADS); // block of this turn
		if (id < SQUARE_LANES)
			for (uint b = (id + SQUARE_LANES - first % SQUARE_LANES) % SQUARE_LANES; b < gl_WorkGroupSize.x / BLOCK_QUADS; b += SQUARE_LANES) {
				precise float block = 0;
				[[unroll]] for (uint i = 0; i < BLOCK_QUADS; i++)
					block += squares[b * (BLOCK_QUADS + 1) + i];
				sum += block;
			}
	}
	if (id < SQUARE_LANES)
		lanes[id] = sum;
	barrier();
	sum = 0;
	for (uint l = 0; l < SQUARE_LANES; l++)
		sum += lanes[l];
	return sum;
}

void main() {
	uint id = gl_LocalInvocationID.x;
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		uint first = row * push.quads;
		vec4 v[QUADS], operand[MOST * QUADS], bias[QUADS]; // all are loaded before anything waits
		bool here[QUADS];
		[[unroll]] for (uint q = 0; q < QUADS; q++) {
			uint at = id + q * gl_WorkGroupSize.x;
			here[q] = at < push.quads;
			at = here[q] ? at : 0;
			v[q] = here[q] ? x[first + at] : vec4(0);
			[[unroll]] for (uint i = 0; i < MOST; i++) {
				uint kind = kindOf(i), from = kind == ADD || kind == GATE ? first : kind == MULTIPLY ? row % floatBitsToUint(push.number[i]) * push.quads : 0;
				if (kind != 0 && kind != SCALE)
					operand[i * QUADS + q] = operandOf(i, from + at);
			}
			bias[q] = vec4(0);
			if (push.biased != 0)
				bias[q] = biases[at];
		}
		vec4 packed[QUADS]; // what is packed, with scales that are multiplied: so block.glsl can begin an RMSNorm before the root is known
		float factor = 1;
		[[unroll]] for (uint i = 0; i < MOST; i++) {
			uint kind = kindOf(i);
			if (kind == 0)
				break;
			float mean = 0, root = 1;
			if (kind == LAYER) {
				vec2 sum = vec2(0);
				[[unroll]] for (uint q = 0; q < QUADS; q++)
					[[unroll]] for (uint j = 0; j < 4; j++)
						sum = plus(sum, vec2(v[q][j], 0));
				mean = groupMean(sum, 4 * push.quads);
			}
			if (kind == RMS || kind == LAYER) {
				vec4 centred[QUADS];
				[[unroll]] for (uint q = 0; q < QUADS; q++)
					centred[q] = here[q] ? v[q] - mean : vec4(0);
				root = rootOf(rowSquares(centred), 4 * push.quads, push.number[i]);
			}
			factor = 1;
			[[unroll]] for (uint q = 0; q < QUADS; q++) {
				vec4 o = operand[i * QUADS + q];
				precise vec4 y;
				if (kind == ADD)
					y = v[q] + o;
				else if (kind == SCALE)
					y = v[q] * push.number[i];
				else if (kind == MULTIPLY)
					y = v[q] * o;
				else if (kind == SHIFT)
					y = v[q] + o;
				else if (kind == GATE)
					y = gated(floatBitsToUint(push.number[i]), o, v[q]);
				else if (kind == RMS) {
					packed[q] = y = v[q] * o;
					factor = 1 / root;
					y = normed(y, root);
				} else {
					y = (v[q] - mean) / root * o;
					if (bitfieldExtract(push.biased, int(i), 1) != 0)
						y += bias[q];
				}
				v[q] = here[q] ? y : vec4(0); // the mean of a LAYER is of all invocations
				if (kind != RMS)
					packed[q] = y;
				if (here[q])
					keep(i, first + id + q * gl_WorkGroupSize.x, y);
			}
		}
		if (PACK)
			[[unroll]] for (uint q = 0; q < QUADS; q++)
				pack(first + id + q * gl_WorkGroupSize.x, here[q], here[q] ? packed[q] : vec4(0), push.scales, factor);
	}
}
