// loadUnit loads unit u of a row of the matrix that loads.glsl reads.
Unit loadUnit(Weights w, uint row, uint u) {
	Unit r;
	uint unit = row * w.units + u;
	if (QUANTISED) {
		unitQuants(w, unit, r.q);
		r.s = scaleOf(w, unit);
	} else {
		[[unroll]] for (uint h = 0; h < UNIT / 8; h++) {
			float f[8];
			floatsOf(unit * (UNIT / 8) + h, f);
			[[unroll]] for (uint i = 0; i < 8; i++)
				r.f[8 * h + i] = f[i];
		}
	}
	return r;
}
