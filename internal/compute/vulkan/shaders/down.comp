// out = Σ a_i·down[i] over a set of neurons, plus bias. A workgroup sums a group of lanes for some slots of eight outputs of one token: an
// invocation has SPAN slots of one lane. The last workgroup that has a group's sums of some slots adds the groups.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl"
#include "neurons.glsl"

layout(constant_id = 4) const bool ADDED = false; // the result is added to total, too

layout(set = 0, binding = 1, std430) readonly buffer Bits { uint8_t bits[]; }; // [tokens, 4·words]
layout(set = 0, binding = 2, std430) readonly buffer A { uint a[]; };          // [tokens, neurons], as neurons.glsl has them
layout(set = 0, binding = 3, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 4, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 5, std430) buffer Counts { uint counts[]; };               // predicted, gated, active
layout(set = 0, binding = 6, std430) buffer Carry { float carry[]; };                // [tokens, NEURON_LANES, outputs in slots] between parts
layout(set = 0, binding = 7, std430) coherent buffer Sums { float groupSums[]; };    // [tokens, LANE_GROUPS, workgroups of a group, SPAN, ROUND]
layout(set = 0, binding = 8, std430) coherent buffer Arrived { uint arrived[]; };    // [tokens, workgroups of a group]: all zero before and after
layout(set = 0, binding = 10, std430) buffer Total { float total[]; };

layout(push_constant) uniform Push {
	Weights w;
	uint rows;     // of the matrix's part
	uint firstRow; // the first of them, in the matrix
	uint neurons;  // of the layer; sets may have more
	uint words;     // of a row of bits
	uint firstBits; // row of the bits that belongs to the first token
	uint firstStep; // row of the step, likewise
	uint cols;     // outputs
	uint firstOut; // row of the output that belongs to the first token
	uint biased;
	uint begin;    // this part is the first
	uint end;      // and the last
} push;
#define PARAMS 9
#define ROWS 0
#define OUT 0
#include "params.glsl"

const uint SPAN = 4; // neighbouring slots of an invocation, a unit of quantised types
const uint AHEAD = TYPE == F32 ? 2 : 4; // columns that an invocation loads at a time
const uint THREADS = 16, LOCAL = THREADS * LANE_GROUP, ROUND = THREADS * 8; // outputs that are added up at a time
const uint TURNS = 64; // neurons of a lane that are looked at at a time

shared float parts[LANE_GROUP * ROUND];
shared uint masks[LANE_GROUP * TURNS / 32]; // neurons of each lane whose a is not zero
shared float factors[TURNS * LANE_GROUP];
shared uint seen[3];
shared bool last_;

// look fills masks and factors with the lanes' neurons from number first of each on.
void look(uint token, uint group, uint first) {
	uint id = gl_LocalInvocationID.x;
	if (id < masks.length())
		masks[id] = 0;
	barrier();
	bool there = !padding(push.firstStep + token), counting = push.end != 0 && gl_WorkGroupID.x == 0;
	uint listed = 0, open = 0, used = 0;
	[[unroll]] for (uint i = 0; i < TURNS * LANE_GROUP; i += LOCAL) {
		uint turn = (i + id) / LANE_GROUP, lane = id % LANE_GROUP;
		uint neuron = (first + turn) * NEURON_LANES + group * LANE_GROUP + lane;
		if (neuron < push.neurons) {
			uint v = a[token * push.neurons + neuron], byte = uint(bits[(push.firstBits + token) * push.words * 4 + neuron / 8]);
			if (there && (byte >> neuron % 8 & 1) != 0) {
				listed++;
				open += v != CLOSED ? 1 : 0;
				if (v << 1 != 0) {
					used++;
					factors[turn * LANE_GROUP + lane] = uintBitsToFloat(v);
					atomicOr(masks[lane * (TURNS / 32) + turn / 32], 1u << turn % 32);
				}
			}
		}
	}
	if (counting && listed != 0) {
		atomicAdd(seen[0], listed);
		atomicAdd(seen[1], open);
		atomicAdd(seen[2], used);
	}
	barrier();
}

// unitOutputs are a neuron's weights for the 32 outputs of a unit of a quantised type, slot after slot.
void unitOutputs(Weights w, uint row, uint unit, out float f[32]) {
	int q[8];
	unitQuants(w, row * w.units + unit, q);
	float d[32];
	Scale s = Scale(0, 0, ivec2(1), ivec2(1));
	if (GROUPED) {
		[[unroll]] for (uint i = 0; i < 4; i++) {
			uvec4 halves = weightQuads[(w.a + (row / 32 * w.units + unit) * 16) / 4 + i];
			[[unroll]] for (uint j = 0; j < 4; j++) {
				vec2 pair = unpackHalf2x16(halves[j]);
				d[8 * i + 2 * j] = pair.x;
				d[8 * i + 2 * j + 1] = pair.y;
			}
		}
	} else {
		s = scaleOf(w, row * w.units + unit);
	}
	[[unroll]] for (uint k = 0; k < 4; k++) { // a slot has words k and k+4
		float slot[8];
		if (GROUPED) {
			[[unroll]] for (uint i = 0; i < 8; i++) {
				precise float v = d[column(k, i)] * float(bitfieldExtract(q[k + i / 4 * 4], int(8 * (i % 4)), 8) - OFFSET);
				slot[i] = v;
			}
		} else {
			slotValues(k, ivec2(q[k], q[k + 4]), s, slot);
		}
		[[unroll]] for (uint i = 0; i < 8; i++)
			f[8 * k + i] = slot[i];
	}
}

void main() {
	uint id = gl_LocalInvocationID.x, lane = id / THREADS, thread = id % THREADS, token = gl_WorkGroupID.z, group = gl_WorkGroupID.y;
	uint all = slots(push.w), firstSlot = gl_WorkGroupID.x * THREADS * SPAN, own = firstSlot + thread * SPAN;
	if (id < 3)
		seen[id] = 0;

	float sums[8 * SPAN];
	uint carried = (token * NEURON_LANES + group * LANE_GROUP + lane) * all;
	[[unroll]] for (uint i = 0; i < 8 * SPAN; i++)
		sums[i] = push.begin != 0 || own + i / 8 >= all ? 0 : carry[(carried + own + i / 8) * 8 + i % 8];
	for (uint first = 0; first * NEURON_LANES < push.neurons; first += TURNS) {
		look(token, group, first);
		[[unroll]] for (uint part = 0; part < TURNS / 32; part++) {
			uint left = masks[lane * (TURNS / 32) + part];
			while (left != 0) {
				float f[AHEAD * SPAN * 8], by[AHEAD];
				uint near = 0; // a row that is read anyway, in place of one that is not wanted
				[[unroll]] for (uint j = 0; j < AHEAD; j++) {
					uint turn = 32 * part + findLSB(left), row = (first + turn) * NEURON_LANES + group * LANE_GROUP + lane - push.firstRow;
					bool here = left != 0 && row < push.rows;
					by[j] = here ? factors[turn * LANE_GROUP + lane] : 0;
					near = here ? row : near;
					left &= left - 1;
					if (QUANTISED) {
						float unit[32];
						unitOutputs(push.w, near, min(own, all - 4) / 4, unit);
						[[unroll]] for (uint i = 0; i < 8 * SPAN; i++)
							f[j * SPAN * 8 + i] = unit[i];
					} else {
						[[unroll]] for (uint s = 0; s < SPAN; s++) {
							float slot[8];
							outputs(push.w, near, min(own + s, all - 1), slot);
							[[unroll]] for (uint i = 0; i < 8; i++)
								f[(j * SPAN + s) * 8 + i] = slot[i];
						}
					}
				}
				[[unroll]] for (uint j = 0; j < AHEAD; j++)
					[[unroll]] for (uint k = 0; k < 8 * SPAN; k++) {
						precise float sum = fma(by[j], f[j * SPAN * 8 + k], sums[k]);
						sums[k] = by[j] != 0 ? sum : sums[k];
					}
			}
		}
		barrier();
	}
	if (push.end != 0 && gl_WorkGroupID.x == 0 && id < 3)
		atomicAdd(counts[id], seen[id]);
	if (push.end == 0) {
		[[unroll]] for (uint i = 0; i < 8 * SPAN; i++)
			if (own + i / 8 < all)
				carry[(carried + own + i / 8) * 8 + i % 8] = sums[i];
		return;
	}

	// The group's sums, slot by slot. In a round invocation id has output id/THREADS of its thread's slot.
	uint pitch = gl_NumWorkGroups.x * SPAN * ROUND, at = token * LANE_GROUPS * pitch + gl_WorkGroupID.x * SPAN * ROUND + id;
	[[unroll]] for (uint s = 0; s < SPAN; s++) {
		[[unroll]] for (uint i = 0; i < 8; i++)
			parts[lane * ROUND + i * THREADS + thread] = sums[8 * s + i];
		barrier();
		if (id < ROUND) {
			precise float sum = 0;
			[[unroll]] for (uint l = 0; l < LANE_GROUP; l++)
				sum += parts[l * ROUND + id];
			groupSums[at + group * pitch + s * ROUND] = sum;
		}
		barrier();
	}
	memoryBarrierBuffer();
	barrier();
	if (id == 0) {
		uint turn = token * gl_NumWorkGroups.x + gl_WorkGroupID.x;
		last_ = atomicAdd(arrived[turn], 1) == LANE_GROUPS - 1;
		if (last_)
			arrived[turn] = 0;
	}
	barrier();
	if (!last_)
		return;
	memoryBarrierBuffer();
	for (uint i = id; i < SPAN * ROUND; i += LOCAL) {
		uint slot = firstSlot + i % THREADS * SPAN + i / ROUND, col = column(slot, i % ROUND / THREADS);
		if (slot >= all || col >= push.cols)
			continue;
		float each[LANE_GROUPS];
		[[unroll]] for (uint g = 0; g < LANE_GROUPS; g++)
			each[g] = groupSums[at - id + i + g * pitch];
		precise float sum = 0;
		[[unroll]] for (uint g = 0; g < LANE_GROUPS; g++)
			sum += each[g];
		if (push.biased != 0)
			sum += bias[col];
		uint to = (push.firstOut + token) * push.cols + col;
		result[to] = sum;
		if (ADDED)
			total[to] += sum;
	}
}
