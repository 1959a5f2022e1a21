// out = Σ a_i·down[i] over all neurons, plus bias, for many tokens: tiles of TILE outputs and TILE tokens, a step for every 32
// neurons. The order of a sum is that of neurons.glsl; what is zero adds nothing.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl"
#include "neurons.glsl"

layout(constant_id = 4) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 1, std430) readonly buffer A { float a[]; }; // [tokens, neurons]
layout(set = 0, binding = 2, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) buffer Total { float total[]; };

layout(push_constant) uniform Push {
	Weights w;
	uint neurons;
	uint cols;     // outputs
	uint tokens;
	uint firstOut; // row of the output that belongs to the first token
	uint biased;
} push;

// The workgroup is SIDE·SIDE invocations; each has EACH·EACH outputs, SIDE apart.
const uint SIDE = 16, EACH = 4, TILE = SIDE * EACH, STEP = 32;

shared float columns[STEP * (TILE + 1)];
shared float coefficients[STEP * (TILE + 1)];

uint at(uint neuron, uint i) { return neuron * (TILE + 1) + i; }

// stage fills shared memory with 32 neurons from first on: eight slots of each, and all tokens' coefficients.
void stage(uint first, uint firstSlot, uint firstToken) {
	uint id = gl_LocalInvocationID.x, n = id / 8, slot = id % 8;
	float f[8];
	outputs(push.w, min(first + n, push.neurons - 1), min(firstSlot + slot, slots(push.w) - 1), f);
	[[unroll]] for (uint i = 0; i < 8; i++)
		columns[at(n, 8 * slot + i)] = f[i];
	[[unroll]] for (uint i = 0; i < 8; i++) {
		uint neuron = first + id % STEP, token = id / STEP + 8 * i;
		bool here = neuron < push.neurons && firstToken + token < push.tokens;
		coefficients[at(id % STEP, token)] = here ? a[(firstToken + token) * push.neurons + neuron] : 0;
	}
}

void main() {
	uint x = gl_LocalInvocationID.x % SIDE, y = gl_LocalInvocationID.x / SIDE;
	uint firstSlot = gl_WorkGroupID.x * (TILE / 8), firstToken = gl_WorkGroupID.y * TILE;
	uint steps = (push.neurons + STEP - 1) / STEP;
	float totals[EACH * EACH];
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
		totals[i] = 0;
	for (uint lane = 0; lane < min(NEURON_LANES, steps); lane++) {
		float sums[EACH * EACH];
		[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
			sums[i] = 0;
		for (uint s = lane; s < steps; s += NEURON_LANES) {
			barrier();
			stage(s * STEP, firstSlot, firstToken);
			barrier();
			for (uint n = 0; n < STEP; n++) {
				float w[EACH], c[EACH];
				[[unroll]] for (uint i = 0; i < EACH; i++) {
					w[i] = columns[at(n, x + i * SIDE)];
					c[i] = coefficients[at(n, y + i * SIDE)];
				}
				[[unroll]] for (uint t = 0; t < EACH; t++)
					[[unroll]] for (uint o = 0; o < EACH; o++) {
						precise float sum = fma(c[t], w[o], sums[t * EACH + o]);
						sums[t * EACH + o] = sum;
					}
			}
		}
		[[unroll]] for (uint i = 0; i < EACH * EACH; i++) {
			precise float sum = totals[i] + sums[i];
			totals[i] = sum;
		}
	}
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++) {
		uint t = firstToken + y + i / EACH * SIDE, o = x + i % EACH * SIDE;
		if (t >= push.tokens || firstSlot + o / 8 >= slots(push.w))
			continue;
		uint col = column(firstSlot + o / 8, o % 8);
		if (col >= push.cols)
			continue;
		precise float sum = totals[i];
		if (push.biased != 0)
			sum += bias[col];
		uint at = (push.firstOut + t) * push.cols + col;
		result[at] = sum;
		if (ADDED)
			total[at] += sum;
	}
}
