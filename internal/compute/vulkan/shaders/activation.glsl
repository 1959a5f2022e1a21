// The activations of compute.Activation.

const uint SILU = 0, GELU = 1, RELU = 2, FATRELU = 3, DRELU = 4, RELU2 = 5, CLAMPED = 6, LOGISTIC = 7, LIMITED = 8, CAPPED = 9, SITU = 10, SOFTPLUS = 11, IDENTITY = 12;

struct Nonlinearity {
	uint kind; // compute.Nonlinearity
	float threshold, slope, limit;
};

// numberless reports whether x is NaN. The test is of bits, because comparisons of floats may be compiled as if there were no NaN.
bool numberless(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// sigmoid is 1/(1+exp(-x)); beyond ±80 it is 0 or 1 to float32's last bit times any x, and the exponential would overflow. NaN stays.
float sigmoid(float x) { return numberless(x) ? x : 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0))); }

// large is x unless its magnitude is below s.
float large(float x, float s) { return abs(x) < s ? 0.0 : x; }

// above is x if it is above s, else 0; NaN stays.
float above(float x, float s) { return x > s || numberless(x) ? x : 0.0; }

// atMost and within keep x below a limit, and its magnitude; NaN stays.
float atMost(float x, float limit) { return numberless(x) ? x : min(x, limit); }
float within(float x, float limit) { return numberless(x) ? x : clamp(x, -limit, limit); }

// soft is limit·tanh(x/limit).
float soft(float x, float limit) { return limit * (2.0 * sigmoid(2.0 / limit * x) - 1.0); }

// softplus is ln(1+exp(x)): max(x, 0) + ln(1+e), e being exp(-|x|). The logarithm is 2·artanh(e/(2+e)), a short series.
float softplus(float x) {
	if (numberless(x)) return x;
	float e = exp(max(-abs(x), -80.0)), z = e / (2.0 + e), y = z * z;
	return max(x, 0.0) + 2.0 * z * (((((((1.0 / 13.0 * y + 1.0 / 11.0) * y + 1.0 / 9.0) * y + 1.0 / 7.0) * y + 1.0 / 5.0) * y + 1.0 / 3.0) * y) + 1.0);
}

// activation is act(g), before it is multiplied by factor(u).
float activation(Nonlinearity act, float g) {
	switch (act.kind) {
	case SILU: return large(g * sigmoid(g), act.threshold);
	case GELU: { // tanh(z) = 2·sigmoid(2z) - 1
		float c = clamp(g, -20.0, 20.0); // beyond, tanh is ±1
		return large(g * sigmoid(1.5957691216057308 * (c + 0.044715 * c * c * c)), act.threshold);
	}
	case CLAMPED: {
		float c = atMost(g, act.limit);
		return c * sigmoid(act.slope * c);
	}
	case LOGISTIC: return sigmoid(g);
	case LIMITED: {
		float c = atMost(g, act.limit);
		return c * sigmoid(c);
	}
	case CAPPED: return atMost(g * sigmoid(g), act.limit);
	case SITU: return soft(g, act.slope) * sigmoid(g);
	case SOFTPLUS: return softplus(g);
	case IDENTITY: return g;
	}
	float p = above(g, act.kind == FATRELU ? act.threshold : 0.0);
	return act.kind == RELU2 ? p * p : p;
}

// factor is what a gated layer multiplies by: u, its positive part in dReLU, or u within a limit.
float factor(Nonlinearity act, float u) {
	switch (act.kind) {
	case DRELU: return above(u, 0.0);
	case CLAMPED: return 1.0 + within(u, act.limit);
	case LIMITED: case CAPPED: return within(u, act.limit);
	case SITU: return act.limit > 0.0 ? soft(u, act.limit) : u;
	}
	return u;
}
