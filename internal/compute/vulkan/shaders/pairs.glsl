// Pairs of neighbouring elements of keys and values as they lie in a cache; kv.go has the layout. An includer has kv.glsl, and k and
// keyScales of KEY_TYPE and KEY.

// pairOf is two neighbouring elements of type, a float type or a quantised one with its scale. In word, theirs, they are number j of it; the second float of
// F32 is next.
vec2 pairOf(uint type, uint word, uint next, uint j, float scale) {
	switch (type) {
	case KV_F16:
		return unpackHalf2x16(word);
	case KV_BF16:
		return vec2(uintBitsToFloat(word << 16), uintBitsToFloat(word & 0xffff0000u));
	case KV_F32:
		return vec2(uintBitsToFloat(word), uintBitsToFloat(next));
	case KV_Q8_0:
		return vec2(bitfieldExtract(int(word), int(16 * j), 8), bitfieldExtract(int(word), int(16 * j + 8), 8)) * scale;
	}
	return vec2(int(bitfieldExtract(word, int(j), 4)) - 8, int(bitfieldExtract(word, int(j) + 8, 4)) - 8) * scale;
}

// wordOf is the word of a head's elements that has pair j.
uint wordOf(uint type, uint j) {
	if (type == KV_F32)
		return 2 * j;
	if (type == KV_Q8_0)
		return j / 2;
	return type == KV_Q4_0 ? j / 16 * 4 + j % 8 / 2 : j;
}

// inWord is pair j's number in it; in Q4_0 its first bit, for the second half of a block lies in the upper halves of bytes.
uint inWord(uint type, uint j) { return type == KV_Q4_0 ? j % 2 * 16 + j % 16 / 8 * 4 : j % 2; }

// keyPair is pair j of the key at slot of a head's page.
vec2 keyPair(uint block, uint slot, uint j) {
	uint base = block * kvHeadWords(KEY_TYPE, KEY), at = base + wordOf(KEY_TYPE, j) * 64 + slot;
	float scale = KEY_TYPE >= KV_Q8_0 ? unpackHalf2x16(uint(keyScales[2 * (base + 64 * kvWords(KEY_TYPE, KEY)) + j / 16 * 64 + slot])).x : 1;
	return pairOf(KEY_TYPE, k[at], KEY_TYPE == KV_F32 ? k[at + 64] : 0, inWord(KEY_TYPE, j), scale);
}
