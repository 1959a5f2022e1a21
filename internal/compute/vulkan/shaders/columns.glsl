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
