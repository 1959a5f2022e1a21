// A list of neurons for each token, from bits or from values: the gates, in ungated layers the ups, whose activation is not
// zero. A workgroup makes one token's list; four invocations make a lane's. Padding has an empty list.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "neurons.glsl"
#include "activation.glsl"

layout(constant_id = 2) const bool VALUES = false;
layout(constant_id = 3) const bool ACTIVATED = false; // act(value) is picked, not the value

layout(set = 0, binding = 0, std430) readonly buffer Bits { uint bits[]; };        // [tokens, words]
layout(set = 0, binding = 0, std430) readonly buffer Values { float values[]; };   // [tokens, neurons]
layout(set = 0, binding = 1, std430) writeonly buffer List { uint list[]; };       // [tokens, neurons]
layout(set = 0, binding = 2, std430) writeonly buffer Offsets { uint offsets[]; }; // [tokens, OFFSETS]
layout(set = 0, binding = 3, std430) writeonly buffer Picked { float picked[]; };  // the list's values
layout(set = 0, binding = 4, std430) buffer Counts { uint counts[]; };

layout(push_constant) uniform Push {
	uint neurons;    // of the layer; sets may have more
	uint words;      // of a row of bits
	uint firstToken; // row of the bits or values that belongs to the first token
	uint count;      // which of counts the list's length is added to
	uint kind;       // compute.Nonlinearity
	float threshold; // of the activation
	uint firstStep;  // row of the step that belongs to the first token
} push;
#define PARAMS 5
#define ROWS 0
#define OUT 0
#include "params.glsl"

const uint LOCAL = 256, PARTS = LOCAL / NEURON_LANES;

const uint KEPT = 2048; // words that are made once: enough for 65536 neurons

shared uint sums[LOCAL];
shared uint kept[KEPT];

// made are neurons 32·i… that are listed, read anew.
uint made(uint token, uint i) {
	uint row = push.firstToken + token, some = min(32, push.neurons - 32 * i);
	if (!VALUES)
		return bits[row * push.words + i] & 0xffffffffu >> 32 - some;
	uint w = 0;
	for (uint b = 0; b < some; b++)
		if (activation(push.kind, push.threshold, values[row * push.neurons + 32 * i + b]) != 0)
			w |= 1u << b;
	return w;
}

// keep fills kept, neighbours reading neighbours.
void keep(uint token) {
	uint id = gl_LocalInvocationID.x, row = push.firstToken + token;
	uint some = min(push.neurons, 32 * KEPT);
	for (uint i = id; i < (some + 31) / 32; i += LOCAL)
		kept[i] = VALUES ? 0 : made(token, i);
	barrier();
	if (!VALUES)
		return;
	for (uint n = id; n < some; n += LOCAL)
		if (activation(push.kind, push.threshold, values[row * push.neurons + n]) != 0)
			atomicOr(kept[n / 32], 1u << n % 32);
	barrier();
}

// word are neurons 32·i… that are listed.
uint word(uint token, uint i) { return i < KEPT ? kept[i] : made(token, i); }

void main() {
	uint id = gl_LocalInvocationID.x, token = gl_WorkGroupID.x;
	uint words = (push.neurons + 31) / 32, each = ((words + NEURON_LANES - 1) / NEURON_LANES + PARTS - 1) / PARTS;
	uint lane = id / PARTS, from = lane + id % PARTS * each * NEURON_LANES;
	uint to = padding(push.firstStep + token) ? 0 : min(words, from + each * NEURON_LANES);
	keep(token);
	uint n = 0;
	for (uint i = from; i < to; i += NEURON_LANES)
		n += bitCount(word(token, i));

	// The sums of all invocations up to each.
	sums[id] = n;
	barrier();
	for (uint reach = 1; reach < LOCAL; reach *= 2) {
		uint before = id >= reach ? sums[id - reach] : 0;
		barrier();
		sums[id] += before;
		barrier();
	}
	uint at = sums[id] - n;
	if (id % PARTS == 0)
		offsets[token * OFFSETS + lane] = at;
	if (id == LOCAL - 1) {
		offsets[token * OFFSETS + NEURON_LANES] = sums[id];
		atomicAdd(counts[push.count], sums[id]);
	}

	for (uint i = from; i < to; i += NEURON_LANES) {
		for (uint w = word(token, i); w != 0; w &= w - 1) {
			uint neuron = 32 * i + findLSB(w);
			list[token * push.neurons + at] = neuron;
			if (VALUES) {
				float v = values[(push.firstToken + token) * push.neurons + neuron];
				picked[token * push.neurons + at] = ACTIVATED ? activation(push.kind, push.threshold, v) : v;
			}
			at++;
		}
	}
}
