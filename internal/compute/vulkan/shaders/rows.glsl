// Products of one token with the rows of a set's neurons, and what becomes of them: LANES invocations sum a row. Every workgroup counts the
// set's neurons and takes those whose turn it is.
#include "common.glsl"

#define WEIGHTS 0
#define ACTS 1
const bool POSITIVE = false;
#include "product.glsl"
#define UPS 7
#include "up.glsl"
#include "neurons.glsl"
#include "activation.glsl"

layout(constant_id = 3) const uint STEP = 0;
layout(constant_id = 4) const uint EACH = 4;  // words of bits that an invocation counts

const uint AHEAD = 4; // units of a row that a lane loads at a time

const uint GATE = 0; // values become act(product)
const uint UP = 1;   // act(gate), which values have, times factor(product), of those whose gate is open
const uint ONLY = 2; // act(product), in ungated layers
const uint BOTH = 3; // act(product)·factor(the product with ups)

const uint OWN = 2; // of adds: what is added is each token's own, [tokens, neurons]

layout(set = 0, binding = 2, std430) readonly buffer Bits { uint bits[]; }; // [tokens, words]
layout(set = 0, binding = 3, std430) buffer Values { uint values[]; };      // [tokens, neurons], as neurons.glsl has them
layout(set = 0, binding = 4, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 5, std430) readonly buffer UpBias { float upBias[]; }; // of BOTH

layout(push_constant) uniform Push {
	Weights w;     // of both matrices
	uint rows;     // of the matrix's part
	uint firstRow; // the first of them, in the matrix
	uint neurons;  // of the layer; sets may have more
	uint words;    // of a row of bits
	uint firstBits; // row of the bits that belongs to the first token
	uint firstStep; // row of the step, likewise
	uint firstAct; // row of the activations, likewise
	uint actScales;
	uint adds;       // 0: nothing, 1: a bias, OWN: each token's own
	uint upAdds;     // to the product with ups, likewise
	Nonlinearity act;
} push;
#define PARAMS 6
#define ROWS 0
#define OUT 0
#include "params.glsl"

const uint GROUPS = gl_WorkGroupSize.x / LANES;

shared float parts[GROUPS * (LANES + 1)];
shared float upParts[GROUPS * (LANES + 1)];
shared uint counts[64]; // by subgroup
shared uint turns[GROUPS];

// word are neurons 32·i… that the set has.
uint word(uint token, uint i) {
	if (32 * i >= push.neurons)
		return 0;
	return bits[(push.firstBits + token) * push.words + i] & 0xffffffffu >> 32 - min(32, push.neurons - 32 * i);
}

float ordered(uint group) {
	precise float sum = 0;
	for (uint l = 0; l < LANES; l++)
		sum += parts[group * (LANES + 1) + l];
	return sum;
}

float orderedUp(uint group) {
	precise float sum = 0;
	for (uint l = 0; l < LANES; l++)
		sum += upParts[group * (LANES + 1) + l];
	return sum;
}

float added(uint adds, uint token, uint neuron, float sum) { return adds == 0 ? sum : sum + bias[(adds == OWN ? token * push.neurons : 0) + neuron]; }
float addedUp(uint adds, uint token, uint neuron, float sum) { return adds == 0 ? sum : sum + upBias[(adds == OWN ? token * push.neurons : 0) + neuron]; }

void main() {
	uint group = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES, token = gl_WorkGroupID.y;
	// The set's neurons, counted in order: this invocation's words, and how many neurons are before them.
	uint from = (gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID) * EACH;
	uint own[EACH], n = 0;
	[[unroll]] for (uint j = 0; j < EACH; j++) {
		own[j] = word(token, from + j);
		n += bitCount(own[j]);
	}
	if (padding(push.firstStep + token))
		return;
	uint before = subgroupExclusiveAdd(n);
	if (gl_SubgroupInvocationID == gl_SubgroupSize - 1)
		counts[gl_SubgroupID] = before + n;
	barrier();
	uint all = 0;
	for (uint s = 0; s < gl_NumSubgroups; s++) {
		before += s < gl_SubgroupID ? counts[s] : 0;
		all += counts[s];
	}

	for (uint first = gl_WorkGroupID.x * GROUPS; first < all; first += gl_NumWorkGroups.x * GROUPS) {
		// Those from number first on, one for each group.
		uint at = before;
		[[unroll]] for (uint j = 0; j < EACH; j++) {
			uint next = at + bitCount(own[j]);
			if (at < first + GROUPS && next > first)
				for (uint w = own[j]; w != 0; w &= w - 1, at++)
					if (at - first < GROUPS)
						turns[at - first] = 32 * (from + j) + findLSB(w);
			at = next;
		}
		barrier();
		uint neuron = turns[group], row = neuron - push.firstRow;
		bool here = first + group < all && row < push.rows; // the others are another part's
		uint value = token * push.neurons + neuron;
		float gate = 1;
		if (STEP == UP)
			gate = here ? uintBitsToFloat(values[value]) : 0;
		float sum = 0, upSum = 0;
		for (uint u = here && gate != 0 ? lane : push.w.units; u < push.w.units; u += AHEAD * LANES) {
			Unit w[AHEAD], up[AHEAD];
			[[unroll]] for (uint j = 0; j < AHEAD; j++) {
				w[j] = loadUnit(push.w, row, min(u + j * LANES, push.w.units - 1));
				if (STEP == BOTH)
					up[j] = loadUp(push.w, row, min(u + j * LANES, push.w.units - 1));
			}
			[[unroll]] for (uint j = 0; j < AHEAD; j++) {
				if (u + j * LANES < push.w.units) {
					Act a = loadAct(push.firstAct + token, push.w.units, push.actScales, u + j * LANES);
					sum = accumulate(w[j], a, sum);
					if (STEP == BOTH)
						upSum = accumulate(up[j], a, upSum);
				}
			}
		}
		parts[group * (LANES + 1) + lane] = sum;
		if (STEP == BOTH)
			upParts[group * (LANES + 1) + lane] = upSum;
		barrier();
		if (lane != 0 || !here)
			continue;
		precise float total = added(push.adds, token, neuron, ordered(group));
		if (STEP == BOTH) {
			gate = activation(push.act, total);
			total = gate * factor(push.act, addedUp(push.upAdds, token, neuron, orderedUp(group)));
		} else if (STEP == UP) {
			total = gate * factor(push.act, total);
		} else {
			gate = total = activation(push.act, total);
		}
		values[value] = gate == 0 ? CLOSED : marked(total);
	}
}
