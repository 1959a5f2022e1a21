// halfBits is the half nearest to x, ties to even. packHalf2x16 may round another way.
uint halfBits(float x) {
	uint bits = floatBitsToUint(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
	if (a > 0x7f800000u) return sign | 0x7e00u;  // NaN
	if (a >= 0x477ff000u) return sign | 0x7c00u; // 65520 and above
	if (a < 0x33000000u) return sign;            // below half of the smallest
	if (a < 0x38800000u) {                       // the result is subnormal: units of 2^-24
		uint shift = 126 - (a >> 23), m = a & 0x7fffffu | 0x800000u;
		return sign | (m + (1u << shift - 1) - 1 + (m >> shift & 1)) >> shift;
	}
	return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
}

// bfloatBits is the BF16 nearest to x, ties to even.
uint bfloatBits(float x) {
	uint bits = floatBitsToUint(x);
	if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 64; // NaN
	return bits + 0x7fffu + (bits >> 16 & 1) >> 16;
}
