// Writes elements of keys and values to their places in a cache, rounded to its types; kv.go has the layout. An includer has half.glsl, kv.glsl and
// element(key, i), an element of a key or a value, and defines KEY_CACHE and VALUE_CACHE, their bindings.

layout(set = 0, binding = KEY_CACHE, std430) writeonly buffer Keys { uint keyCache[]; };
layout(set = 0, binding = KEY_CACHE, std430) writeonly buffer KeyScales { uint16_t keyScales[]; };
layout(set = 0, binding = VALUE_CACHE, std430) writeonly buffer Values { uint valueCache[]; };
layout(set = 0, binding = VALUE_CACHE, std430) writeonly buffer ValueScales { uint16_t valueScales[]; };

void put(bool key, uint at, uint word) {
	if (key)
		keyCache[at] = word;
	else
		valueCache[at] = word;
}


// nearest rounds halves away from zero. What is less than a half by the least becomes 0, as in package quant.
int nearest(float x) { return int(x + (x < 0 ? -uintBitsToFloat(0x3effffffu) : uintBitsToFloat(0x3effffffu))); }

// quotient is a / b, rounded to the nearest float. Vulkan lets a division be 2.5 ulps off. NVIDIA's was one ulp less for the scale of a block, which
// then was rounded to another half than the definition's: attention differed by more than float32 sums do.
float quotient(float a, float b) {
	uint x = floatBitsToUint(a), y = floatBitsToUint(b);
	uint wide = x >> 23 & 0xffu, narrow = y >> 23 & 0xffu, m = x & 0x7fffffu | 0x800000u, n = y & 0x7fffffu | 0x800000u;
	int exponent = int(wide) - int(narrow) + 127;
	if (m < n) {
		m <<= 1;
		exponent--;
	}
	if (wide == 0 || narrow == 0 || wide == 255 || narrow == 255 || exponent < 1 || exponent > 253)
		return a / b; // subnormal, infinite or none
	uint q = 1, rest = m - n; // of m / n, from 1 to 2
	[[dont_unroll]] for (int i = 0; i < 3; i++) { // eight bits each
		q = q << 8 | (rest << 8) / n;
		rest = (rest << 8) % n;
	}
	uint up = q & 1 & (q >> 1 | uint(rest != 0));
	return uintBitsToFloat(((x ^ y) & 0x80000000u) | (uint(exponent) << 23) + ((q >> 1) - 0x800000u) + up);
}

// quantise writes a block of 32 elements from i on: its words begin at word, each step apart, and its scale is number scale.
void quantise(bool key, uint type, uint i, uint word, uint step, uint scale) {
	float largest = 0; // in magnitude, with its sign
	for (uint j = 0; j < 32; j++) {
		float x = element(key, i + j);
		if (abs(x) > abs(largest))
			largest = x;
	}
	precise float d = type == KV_Q8_0 ? quotient(abs(largest), 127.0) : largest * -0.125;
	precise float by = d != 0 ? quotient(1.0, d) : 0;
	if (key)
		keyScales[scale] = uint16_t(halfBits(d));
	else
		valueScales[scale] = uint16_t(halfBits(d));
	if (type == KV_Q8_0) {
		for (uint w = 0; w < 8; w++) {
			uint bits = 0;
			for (uint j = 0; j < 4; j++) {
				precise float x = element(key, i + 4 * w + j) * by;
				bits |= (uint(nearest(x)) & 0xffu) << 8 * j;
			}
			put(key, word + w * step, bits);
		}
		return;
	}
	for (uint w = 0; w < 4; w++) {
		uint bits = 0;
		for (uint j = 0; j < 4; j++) {
			precise float low = element(key, i + 4 * w + j) * by + 8.5, high = element(key, i + 16 + 4 * w + j) * by + 8.5;
			bits |= (uint(min(15, int(low))) | uint(min(15, int(high))) << 4) << 8 * j;
		}
		put(key, word + w * step, bits);
	}
}

// store writes one unit of a head's elements, the first of which is number first: a pair, or a block.
void store(bool key, uint type, uint elements, uint first, uint unit, uint head, uint slot) {
	uint words = kvWords(type, elements), blocks = kvBlocks(type, elements);
	uint base = head * kvHeadWords(type, elements), step = key ? 64 : 1;
	uint at = base + (key ? slot : slot * words);
	if (type == KV_F32) {
		put(key, at + 2 * unit * step, floatBitsToUint(element(key, first + 2 * unit)));
		put(key, at + (2 * unit + 1) * step, floatBitsToUint(element(key, first + 2 * unit + 1)));
	} else if (blocks == 0) {
		float x = element(key, first + 2 * unit), y = element(key, first + 2 * unit + 1);
		put(key, at + unit * step, type == KV_BF16 ? bfloatBits(x) | bfloatBits(y) << 16 : halfBits(x) | halfBits(y) << 16);
	} else {
		uint scale = 2 * (base + 64 * words) + (key ? unit * 64 + slot : slot * blocks + unit);
		quantise(key, type, first + 32 * unit, at + unit * (words / blocks) * step, step, scale);
	}
}
