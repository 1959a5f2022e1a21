// out = Σ a_i·down[i] over a list of neurons, plus bias. A workgroup sums SLOTS slots of eight outputs of one token: an
// invocation has one slot of one lane.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl"
#include "neurons.glsl"
#include "activation.glsl"

layout(constant_id = 4) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 1, std430) readonly buffer List { uint list[]; };       // [tokens, neurons]
layout(set = 0, binding = 2, std430) readonly buffer Offsets { uint offsets[]; }; // [tokens, OFFSETS]
layout(set = 0, binding = 3, std430) readonly buffer A { float a[]; };            // the list's
layout(set = 0, binding = 4, std430) readonly buffer Gates { float gates[]; };    // the list's; a, in ungated layers
layout(set = 0, binding = 5, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 6, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 7, std430) buffer Counts { uint counts[]; };
layout(set = 0, binding = 8, std430) buffer Carry { float carry[]; }; // [tokens, NEURON_LANES, outputs in slots] between parts
layout(set = 0, binding = 9, std430) buffer Total { float total[]; };

layout(push_constant) uniform Push {
	Weights w;
	uint rows;     // of the matrix's part
	uint firstRow; // the first of them, in the matrix
	uint neurons;
	uint cols;     // outputs
	uint firstOut; // row of the output that belongs to the first token
	uint biased;
	uint begin;    // this part is the first
	uint end;      // and the last
	uint gated;    // gates are counted
	uint kind;       // compute.Nonlinearity
	float threshold; // of the activation
} push;

const uint SLOTS = 4, LOCAL = SLOTS * NEURON_LANES, OUTPUTS = SLOTS * 8;
const uint AHEAD = 8; // columns that an invocation loads at a time

shared float parts[NEURON_LANES * OUTPUTS];

// place is where element i of an invocation's slot lies in parts: lanes are turned off each other's banks.
uint place(uint lane, uint slot, uint i) { return lane * OUTPUTS + ((i + lane) * SLOTS + slot) % OUTPUTS; }

// count adds the list's neurons whose gate is open, and those whose a is not zero.
void count(uint token, uint length) {
	uint open = 0, used = 0;
	for (uint i = gl_LocalInvocationID.x; i < length; i += LOCAL) {
		uint at = token * push.neurons + i;
		if (a[at] != 0)
			used++;
		if (push.gated != 0 && activation(push.kind, push.threshold, gates[at]) != 0)
			open++;
	}
	open = subgroupAdd(open);
	used = subgroupAdd(used);
	if (subgroupElect()) {
		atomicAdd(counts[1], open);
		atomicAdd(counts[2], used);
	}
}

void main() {
	uint lane = gl_LocalInvocationID.x / SLOTS, token = gl_WorkGroupID.y;
	uint firstSlot = gl_WorkGroupID.x * SLOTS, all = slots(push.w);
	uint slot = min(firstSlot + gl_LocalInvocationID.x % SLOTS, all - 1);
	uint base = token * push.neurons;
	uint from = offsets[token * OFFSETS + lane], to = offsets[token * OFFSETS + lane + 1];
	if (push.end != 0 && gl_WorkGroupID.x == 0)
		count(token, offsets[token * OFFSETS + NEURON_LANES]);

	float sums[8];
	uint carried = ((token * NEURON_LANES + lane) * all + slot) * 8;
	[[unroll]] for (uint i = 0; i < 8; i++)
		sums[i] = push.begin != 0 ? 0 : carry[carried + i];
	for (uint i = from; i < to; i += AHEAD) {
		float f[AHEAD][8], by[AHEAD];
		uint near = 0; // a row that is read anyway, in place of one that is not wanted
		[[unroll]] for (uint j = 0; j < AHEAD; j++) {
			uint at = base + min(i + j, to - 1), row = list[at] - push.firstRow;
			by[j] = i + j < to && row < push.rows ? a[at] : 0;
			near = by[j] != 0 ? row : near;
			outputs(push.w, near, slot, f[j]);
		}
		[[unroll]] for (uint j = 0; j < AHEAD; j++)
			[[unroll]] for (uint k = 0; k < 8; k++) {
				precise float sum = fma(by[j], f[j][k], sums[k]);
				sums[k] = sum;
			}
	}
	if (push.end == 0) {
		if (firstSlot + gl_LocalInvocationID.x % SLOTS < all)
			[[unroll]] for (uint i = 0; i < 8; i++)
				carry[carried + i] = sums[i];
		return;
	}

	[[unroll]] for (uint i = 0; i < 8; i++)
		parts[place(lane, gl_LocalInvocationID.x % SLOTS, i)] = sums[i];
	barrier();
	uint o = gl_LocalInvocationID.x;
	if (o >= OUTPUTS || firstSlot + o / 8 >= all)
		return;
	uint col = column(firstSlot + o / 8, o % 8);
	if (col >= push.cols)
		return;
	precise float sum = 0;
	for (uint l = 0; l < NEURON_LANES; l++)
		sum += parts[place(l, o / 8, o % 8)];
	if (push.biased != 0)
		sum += bias[col];
	uint at = (push.firstOut + token) * push.cols + col;
	result[at] = sum;
	if (ADDED)
		total[at] += sum;
}
