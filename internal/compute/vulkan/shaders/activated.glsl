// act(gate)·up, of activate.comp and block.glsl alike. An includer has KIND and GATED, and threshold, slope and limit in push.

#include "activation.glsl"

float activated(float gate, float up) {
	Nonlinearity act = Nonlinearity(KIND, push.threshold, push.slope, push.limit);
	precise float a = activation(act, gate);
	if (GATED)
		a *= factor(act, up);
	return a;
}
