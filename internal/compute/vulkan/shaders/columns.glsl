// Down columns of neurons, as rows of slots of eight outputs. An includer defines WEIGHTS.
#include "weights.glsl"

layout(constant_id = 3) const bool GROUPED = false; // 32 neurons share scales, a half for each output

// outputs are a neuron's weights for the eight outputs of a slot.
void outputs(Weights w, uint row, uint slot, out float f[8]) {
	if (!GROUPED) {
		decode(w, row, slot, f);
		return;
	}
	ivec2 q = quantsOf(w, row * w.units + slot / 4, slot % 4);
	uint at = (w.a + (row / 32 * w.units * 32 + column(slot, 0)) / 2) / 2;
	uvec2 low = weightPairs[at], high = weightPairs[at + 4];
	vec2 d[4] = vec2[4](unpackHalf2x16(low.x), unpackHalf2x16(low.y), unpackHalf2x16(high.x), unpackHalf2x16(high.y));
	[[unroll]] for (uint i = 0; i < 8; i++) {
		precise float v = d[i / 2][i % 2] * float(bitfieldExtract(q[i / 4], int(8 * (i % 4)), 8) - OFFSET);
		f[i] = v;
	}
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
