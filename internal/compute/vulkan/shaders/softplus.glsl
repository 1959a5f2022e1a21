// softplus is ln(1+e^v), by the series of ln((1+s)/(1−s)) for s up to 1/3, whose next term is 1e-8 of it: a GPU's log is not exact near 1.
float softplus(float v) {
	float e = exp(-abs(v)), s = e / (2.0 + e), q = s * s;
	float rest = 1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q / 13.0));
	return max(v, 0.0) + 2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * rest)));
}
