// The activations of compute.Activation.

const uint SILU = 0, GELU = 1, RELU = 2, FATRELU = 3, DRELU = 4, RELU2 = 5, CLAMPED = 6;

// numberless reports whether x is NaN. The test is of bits, because comparisons of floats may be compiled as if there were no NaN.
bool numberless(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// sigmoid is 1/(1+exp(-x)); beyond ±80 it is 0 or 1 to float32's last bit times any x, and the exponential would overflow. NaN stays.
float sigmoid(float x) { return numberless(x) ? x : 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0))); }

// large is x unless its magnitude is below s.
float large(float x, float s) { return abs(x) < s ? 0.0 : x; }

// above is x if it is above s, else 0; NaN stays.
float above(float x, float s) { return x > s || numberless(x) ? x : 0.0; }

// activation is act(g), before it is multiplied by factor(u).
float activation(uint kind, float threshold, float g) {
	if (kind == SILU) return large(g * sigmoid(g), threshold);
	if (kind == GELU) { // tanh(z) = 2·sigmoid(2z) - 1
		float c = clamp(g, -20.0, 20.0); // beyond, tanh is ±1
		return large(g * sigmoid(1.5957691216057308 * (c + 0.044715 * c * c * c)), threshold);
	}
	float p = above(g, kind == FATRELU ? threshold : 0.0);
	return kind == RELU2 ? p * p : p;
}

// factor is what a gated layer multiplies by: u, or its positive part in dReLU.
float factor(uint kind, float u) { return kind == DRELU ? above(u, 0.0) : u; }

// clampedGate and clampedUp are the factors of a clamped SwiGLU, which only activate.comp computes.
float clampedGate(float slope, float limit, float g) {
	g = min(g, limit);
	return g * sigmoid(slope * g);
}
float clampedUp(float limit, float u) { return 1.0 + clamp(u, -limit, limit); }
