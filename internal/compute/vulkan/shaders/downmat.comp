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

// Neurons are taken lane by lane: number q is number q mod each of lane q / each.
uint neuronAt(uint q, uint each) { return q / each + q % each * NEURON_LANES; }

// stage fills shared memory with 32 neurons from number first on: eight slots of each, and all tokens' coefficients.
void stage(uint first, uint each, uint firstSlot, uint firstToken) {
	uint id = gl_LocalInvocationID.x, n = id / 8, slot = id % 8;
	float f[8];
	outputs(push.w, min(neuronAt(first + n, each), push.neurons - 1), min(firstSlot + slot, slots(push.w) - 1), f);
	[[unroll]] for (uint i = 0; i < 8; i++)
		columns[at(n, 8 * slot + i)] = f[i];
	uint neuron = neuronAt(first + id % STEP, each);
	[[unroll]] for (uint i = 0; i < 8; i++) {
		uint token = id / STEP + 8 * i;
		bool here = neuron < push.neurons && firstToken + token < push.tokens;
		coefficients[at(id % STEP, token)] = here ? a[(firstToken + token) * push.neurons + neuron] : 0;
	}
}

void main() {
	uint x = gl_LocalInvocationID.x % SIDE, y = gl_LocalInvocationID.x / SIDE;
	uint firstSlot = gl_WorkGroupID.x * (TILE / 8), firstToken = gl_WorkGroupID.y * TILE;
	uint each = (push.neurons + NEURON_LANES - 1) / NEURON_LANES; // neurons of a lane
	float totals[EACH * EACH], groupSums[EACH * EACH], sums[EACH * EACH];
	[[unroll]] for (uint i = 0; i < EACH * EACH; i++)
		totals[i] = groupSums[i] = sums[i] = 0;
	for (uint first = 0; first < each * NEURON_LANES; first += STEP) {
		barrier();
		stage(first, each, firstSlot, firstToken);
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
			if ((first + n) % each != each - 1)
				continue;
			bool ends = (first + n) / each % LANE_GROUP == LANE_GROUP - 1;
			[[unroll]] for (uint i = 0; i < EACH * EACH; i++) { // a lane ends
				precise float sum = groupSums[i] + sums[i], all = totals[i] + sum;
				groupSums[i] = ends ? 0 : sum;
				totals[i] = ends ? all : totals[i];
				sums[i] = 0;
			}
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
