// act(gate)·up, of activate.comp and block.glsl alike. An includer has KIND and GATED, and threshold, slope and limit in push.

#include "activation.glsl"

const uint LOGISTIC = 7; // of attention alone

float activated(float gate, float up) {
	precise float a = KIND == CLAMPED ? clampedGate(push.slope, push.limit, gate) : KIND == LOGISTIC ? sigmoid(gate) : activation(KIND, push.threshold, gate);
	if (GATED)
		a *= KIND == CLAMPED ? clampedUp(push.limit, up) : factor(KIND, up);
	return a;
}
