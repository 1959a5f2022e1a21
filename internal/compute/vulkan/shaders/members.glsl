// Rows of a matrix, and which of the results count, as a set's bits: predictions that reach the threshold, gates that are open. A workgroup has as
// many neurons as it writes bits of, whole bytes, for up to TOKENS tokens; LANES invocations sum ROWS rows.
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

const uint EACH = 2; // of push.adds: bias is [tokens, neurons]

layout(set = 0, binding = 2, std430) writeonly buffer Values { uint values[]; }; // [tokens, neurons]: the products of NONE, the act(…) of OPEN
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Bits { uint8_t bits[]; }; // [tokens, 4·words]

#define PACKED 6
#include "packing.glsl"

layout(push_constant) uniform Push {
	Weights w;
	uint neurons;
	uint always;   // the first neurons, which are in the set and have no row
	uint tokens;
	uint firstAct; // row of the activations that belongs to the first token
	uint firstOut; // and of the bits and values
	uint actScales;
	uint adds;       // 0: nothing, 1: a bias, EACH: each token's own
	uint kind;       // compute.Nonlinearity
	float threshold; // of the activation
	uint packedScales; // where the packed products' scales begin, in pairs of words
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
			[[unroll]] for (uint t = 0; t < TOKENS && u + j * LANES < push.w.units; t++) {
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
		if (member(TEST, neuron < push.always, push.kind, push.threshold, sum))
			atomicOr(masks[t * (OWN / 8) + own / 8], 1u << own % 8);
		if (TEST != LOGIT)
			values[at] = floatBitsToUint(sum);
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
}
