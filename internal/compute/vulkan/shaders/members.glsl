// Rows of a matrix, and which of the results count, as a set's bits: predictions that reach the threshold, gates that are open. A workgroup has as
// many neurons as it writes bits of, whole bytes, for up to TOKENS tokens; LANES invocations sum ROWS rows. With THEN defined it goes on with the
// rows of gate and up of those that it has found, and computes their a: with TEST LOGIT both, with OPEN up.
#include "common.glsl"

layout(constant_id = 5) const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"
#include "neurons.glsl"
#include "activation.glsl"

layout(constant_id = 3) const uint ROWS = 2;
layout(constant_id = 4) const uint TOKENS = 1;
layout(constant_id = 6) const uint TEST = 0;
layout(constant_id = 7) const uint AHEAD = 2; // units of a row that a lane loads at a time
layout(constant_id = 8) const bool PACK = false; // max(product, 0) in eight bits, too: a workgroup has 32 neurons, or a multiple

const uint ROW_AHEAD = 4; // units of a row that a lane loads at a time, after the test

const uint EACH = 2; // of push.adds: bias is [tokens, neurons]

layout(set = 0, binding = 2, std430) writeonly buffer Values { uint values[]; }; // [tokens, neurons]: the products of NONE, the act(…) of OPEN
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Bits { uint8_t bits[]; }; // [tokens, 4·words]

#define PACKED 6
#include "packing.glsl"

#ifdef THEN
#define GATES 7
#include "gate.glsl"
#define UPS 8
#include "up.glsl"
#undef ACTS
#define ACTS 9
#define ActFloats RowFloats
#define ActQuants RowQuants
#define ActScales RowScales
#define actFloats rowFloats
#define actQuants rowQuants
#define actScales rowScales
#define actFloat rowFloat
#define loadAct loadRowAct
#define POSITIVE false
#include "acts.glsl"
#undef ActFloats
#undef ActQuants
#undef ActScales
#undef actFloats
#undef actQuants
#undef actScales
#undef actFloat
#undef loadAct
#undef POSITIVE
layout(set = 0, binding = 10, std430) readonly buffer GateBias { float gateBias[]; };
layout(set = 0, binding = 11, std430) readonly buffer UpBias { float upBias[]; };
#endif

layout(push_constant) uniform Push {
	Weights w;
	uint neurons;
	uint always;   // the first neurons, which are in the set and have no row
	uint tokens;
	uint firstAct; // row of the activations that belongs to the first token
	uint firstOut; // and of the bits and values
	uint actScales;
	uint adds;       // 0: nothing, 1: a bias, EACH: each token's own
	Nonlinearity act;
	uint packedScales; // where the packed products' scales begin, in pairs of words
#ifdef THEN
	Weights rows;   // of gate and up
	uint rowNeurons; // that have rows: the first
	uint firstRow;  // of the step, and of their activations, that belongs to the first token
	uint rowScales;
	uint gateAdds;  // to their products, as adds
	uint upAdds;
#endif
} push;
#define PARAMS 5
#define OUT 0
#include "params.glsl"
#include "test.glsl"

const uint GROUPS = gl_WorkGroupSize.x / LANES; // of lanes
const uint OWN = GROUPS * ROWS;                 // neurons of a workgroup: a multiple of eight
const uint SUMS = ROWS * TOKENS;

shared float parts[GROUPS * SUMS * (LANES + 1)]; // one more, for shared memory's banks
shared uint masks[TOKENS * ((OWN + 7) / 8)];
shared float products[OWN * TOKENS];
#ifdef THEN
shared float upParts[GROUPS * (LANES + 1)];

// then computes the a of those of the workgroup's neurons that are members of token t's set.
void then(uint t, uint firstNeuron) {
	uint group = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES, members = 0;
	for (uint b = 0; b < OWN / 8; b++)
		members |= masks[t * (OWN / 8) + b] << 8 * b;
	for (uint k = 0; k < bitCount(members); k += GROUPS) {
		uint left = members;
		for (uint i = 0; i < k + group; i++)
			left &= left - 1;
		uint own = findLSB(left), neuron = firstNeuron + own;
		bool here = left != 0 && neuron < push.rowNeurons;
		float sum = 0, upSum = 0;
		for (uint u = here ? lane : push.rows.units; u < push.rows.units; u += ROW_AHEAD * LANES) {
			Unit w[ROW_AHEAD], up[ROW_AHEAD];
			[[unroll]] for (uint j = 0; j < ROW_AHEAD; j++) {
				if (TEST == LOGIT)
					w[j] = loadGate(push.rows, neuron, min(u + j * LANES, push.rows.units - 1));
				up[j] = loadUp(push.rows, neuron, min(u + j * LANES, push.rows.units - 1));
			}
			[[unroll]] for (uint j = 0; j < ROW_AHEAD; j++) {
				if (u + j * LANES < push.rows.units) {
					Act a = loadRowAct(push.firstRow + t, push.rows.units, push.rowScales, u + j * LANES);
					if (TEST == LOGIT)
						sum = accumulate(w[j], a, sum);
					upSum = accumulate(up[j], a, upSum);
				}
			}
		}
		barrier();
		parts[group * (LANES + 1) + lane] = sum;
		upParts[group * (LANES + 1) + lane] = upSum;
		barrier();
		if (lane != 0 || !here)
			continue;
		precise float gate = 0, product = 0;
		for (uint l = 0; l < LANES; l++) {
			gate += parts[group * (LANES + 1) + l];
			product += upParts[group * (LANES + 1) + l];
		}
		if (TEST == LOGIT) {
			if (push.gateAdds != 0)
				gate += gateBias[(push.gateAdds == EACH ? t * push.rowNeurons : 0) + neuron];
			gate = activation(push.act, gate);
		} else {
			gate = products[t * OWN + own];
		}
		if (push.upAdds != 0)
			product += upBias[(push.upAdds == EACH ? t * push.rowNeurons : 0) + neuron];
		values[t * push.rowNeurons + neuron] = gate == 0 ? CLOSED : marked(gate * factor(push.act, product));
	}
}
#endif

uint rowOf(uint neuron) { return min(max(neuron, push.always) - push.always, push.neurons - push.always - 1); }

void main() {
	uint id = gl_LocalInvocationID.x, group = id / LANES, lane = id % LANES, firstNeuron = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * OWN;
	if (id < masks.length())
		masks[id] = 0;
	float sums[SUMS];
	[[unroll]] for (uint i = 0; i < SUMS; i++)
		sums[i] = 0;
	bool any = firstNeuron + OWN > push.always && firstNeuron < push.neurons;
	for (uint u = any ? lane : push.w.units; u < push.w.units; u += AHEAD * LANES) {
		Unit w[AHEAD * ROWS];
		[[unroll]] for (uint j = 0; j < AHEAD; j++)
			[[unroll]] for (uint r = 0; r < ROWS; r++)
				w[j * ROWS + r] = loadUnit(push.w, rowOf(firstNeuron + group * ROWS + r), min(u + j * LANES, push.w.units - 1));
		[[unroll]] for (uint j = 0; j < AHEAD; j++) {
			if (u + j * LANES >= push.w.units)
				continue;
			[[unroll]] for (uint t = 0; t < TOKENS; t++) {
				Act a = loadAct(push.firstAct + min(t, push.tokens - 1), push.w.units, push.actScales, u + j * LANES);
				[[unroll]] for (uint r = 0; r < ROWS; r++)
					sums[t * ROWS + r] = accumulate(w[j * ROWS + r], a, sums[t * ROWS + r]);
			}
		}
	}
	[[unroll]] for (uint i = 0; i < SUMS; i++)
		parts[(group * SUMS + i) * (LANES + 1) + lane] = sums[i];
	barrier();

	for (uint i = id; i < OWN * TOKENS; i += gl_WorkGroupSize.x) {
		uint t = i / OWN, own = i % OWN, neuron = firstNeuron + own;
		products[i] = 0;
		if (t >= push.tokens || neuron >= push.neurons)
			continue;
		uint from = (own / ROWS * SUMS + t * ROWS + own % ROWS) * (LANES + 1), at = (push.firstOut + t) * push.neurons + neuron;
		precise float sum = 0;
		for (uint l = 0; l < LANES; l++)
			sum += parts[from + l];
		if (push.adds != 0)
			sum += bias[(push.adds == EACH ? t * push.neurons : 0) + neuron];
		if (member(TEST, neuron < push.always, push.act, sum))
			atomicOr(masks[t * (OWN / 8) + own / 8], 1u << own % 8);
#ifndef THEN
		if (TEST != LOGIT)
			values[at] = floatBitsToUint(sum);
#endif
		products[i] = sum;
	}
	barrier();
	if (PACK) {
		const uint EACH_TOKEN = OWN / PART; // parts of a token
		for (uint from = 0; from < EACH_TOKEN * TOKENS; from += gl_WorkGroupSize.x) {
			uint i = from + id, t = i / EACH_TOKEN, part = i % EACH_TOKEN;
			bool here = t < push.tokens && firstNeuron + PART * part < push.neurons;
			vec4 v = vec4(0);
			if (here)
				[[unroll]] for (uint j = 0; j < PART; j++)
					v[j] = max(products[PART * i + j], 0);
			pack(((push.firstOut + t) * push.neurons + firstNeuron) / PART + part, here, v, push.packedScales);
		}
	}
	uint bytes = (push.neurons + 31) / 32 * 4;
	if (TEST != NONE && id < TOKENS * (OWN / 8)) {
		uint t = id / (OWN / 8), at = firstNeuron / 8 + id % (OWN / 8);
		if (t < push.tokens && at < bytes)
			bits[(push.firstOut + t) * bytes + at] = uint8_t(masks[id]);
	}
#ifdef THEN
	for (uint t = 0; t < push.tokens; t++)
		if (!padding(push.firstRow + t))
			then(t, firstNeuron);
#endif
}
