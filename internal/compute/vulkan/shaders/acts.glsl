// The activations that the binding ACTS has. A shader of two operands includes it once more, with other names for all that is in it.

// Activations: rows of units as floats, or in eight bits as packing.glsl has them.
layout(set = 0, binding = ACTS, std430) readonly buffer ActFloats { vec4 actFloats[]; };
layout(set = 0, binding = ACTS, std430) readonly buffer ActQuants { ivec4 actQuants[]; };
layout(set = 0, binding = ACTS, std430) readonly buffer ActScales { uvec2 actScales[]; };

// actFloat are four floats.
vec4 actFloat(uint i) { return POSITIVE ? max(actFloats[i], 0) : actFloats[i]; }

// loadAct loads unit u of a row; scales is where they begin, in pairs of words.
Act loadAct(uint row, uint units, uint scales, uint u) {
	Act a;
	uint unit = row * units + u;
	if (QUANTISED) {
		ivec4 low = actQuants[2 * unit], high = actQuants[2 * unit + 1];
		a.q = int[8](low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
		uvec2 s = actScales[scales + unit];
		a.d = uintBitsToFloat(s.x);
		a.sums = halfSums(s.y);
	} else {
		[[unroll]] for (uint i = 0; i < UNIT / 4; i++) {
			vec4 v = actFloat(unit * (UNIT / 4) + i);
			a.f[4 * i] = v.x;
			a.f[4 * i + 1] = v.y;
			a.f[4 * i + 2] = v.z;
			a.f[4 * i + 3] = v.w;
		}
	}
	return a;
}
