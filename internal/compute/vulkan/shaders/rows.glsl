// Products of one token with the listed rows of a matrix, and what becomes of them: LANES invocations sum a row.
#include "common.glsl"

#define WEIGHTS 0
#define ACTS 1
const bool POSITIVE = false;
#include "product.glsl"
#include "neurons.glsl"
#include "activation.glsl"

layout(constant_id = 3) const uint STEP = 0;

const uint GATE = 0; // the result is the product
const uint UP = 1;   // act(gate)·factor(product), of those whose gate is open
const uint ONLY = 2; // act(product + bias), in ungated layers

const uint EACH = 2; // of push.adds: bias is [tokens, neurons]

layout(set = 0, binding = 2, std430) readonly buffer List { uint list[]; };       // [tokens, neurons]
layout(set = 0, binding = 3, std430) readonly buffer Offsets { uint offsets[]; }; // [tokens, OFFSETS]
layout(set = 0, binding = 4, std430) readonly buffer Gates { float gates[]; };    // the list's
layout(set = 0, binding = 5, std430) writeonly buffer Out { float result[]; };    // the list's
layout(set = 0, binding = 6, std430) readonly buffer Bias { float bias[]; };

layout(push_constant) uniform Push {
	Weights w;
	uint rows;     // of the matrix's part
	uint firstRow; // the first of them, in the matrix
	uint neurons;
	uint firstAct; // row of the activations that belongs to the first token
	uint actScales;
	uint adds;       // 0: nothing, 1: a bias, EACH: each token's own
	uint kind;       // compute.Nonlinearity
	float threshold; // of the activation
} push;

const uint GROUPS = gl_WorkGroupSize.x / LANES;
const uint AHEAD = 4; // units that a lane loads at a time

shared float parts[GROUPS * (LANES + 1)];

void main() {
	uint group = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES, token = gl_WorkGroupID.y;
	uint count = offsets[token * OFFSETS + NEURON_LANES];
	for (uint first = gl_WorkGroupID.x * GROUPS; first < count; first += gl_NumWorkGroups.x * GROUPS) {
		uint at = token * push.neurons + min(first + group, count - 1);
		uint neuron = list[at], row = neuron - push.firstRow;
		bool here = row < push.rows; // the others are another part's
		float gate = STEP == UP ? activation(push.kind, push.threshold, gates[at]) : 1;
		float sum = 0;
		for (uint u = here && gate != 0 ? lane : push.w.units; u < push.w.units; u += AHEAD * LANES) {
			Unit w[AHEAD];
			[[unroll]] for (uint j = 0; j < AHEAD; j++)
				w[j] = loadUnit(push.w, row, min(u + j * LANES, push.w.units - 1));
			[[unroll]] for (uint j = 0; j < AHEAD; j++)
				if (u + j * LANES < push.w.units)
					sum = accumulate(w[j], loadAct(push.firstAct + token, push.w.units, push.actScales, u + j * LANES), sum);
		}
		barrier();
		parts[group * (LANES + 1) + lane] = sum;
		barrier();
		if (lane != 0 || !here || first + group >= count)
			continue;
		precise float total = 0;
		for (uint l = 0; l < LANES; l++)
			total += parts[group * (LANES + 1) + l];
		if (push.adds != 0)
			total += bias[(push.adds == EACH ? token * push.neurons : 0) + neuron];
		if (STEP == UP)
			total = gate == 0 ? 0 : gate * factor(push.kind, total);
		else if (STEP == ONLY)
			total = activation(push.kind, push.threshold, total);
		result[at] = total;
	}
}
