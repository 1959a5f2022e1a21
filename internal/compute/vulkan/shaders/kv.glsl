// How a KV cache's types lie; kv.go says the same. The numbers are compute.KVType's.
const uint KV_F16 = 0, KV_BF16 = 1, KV_F32 = 2, KV_Q8_0 = 3, KV_Q4_0 = 4;

// kvBlocks is the number of a head's blocks that have a scale.
uint kvBlocks(uint type, uint elements) { return type >= KV_Q8_0 ? elements / 32 : 0; }

// kvWords is the number of words of a position's elements of a head.
uint kvWords(uint type, uint elements) {
	switch (type) {
	case KV_F32:
		return elements;
	case KV_Q8_0:
		return elements / 4;
	case KV_Q4_0:
		return elements / 8;
	}
	return elements / 2;
}

// kvUnits is the number of pieces that are stored at a time: pairs, or blocks.
uint kvUnits(uint type, uint elements) { return type >= KV_Q8_0 ? elements / 32 : elements / 2; }

// kvHeadWords is the number of words of a head's page.
uint kvHeadWords(uint type, uint elements) { return 64 * kvWords(type, elements) + 32 * kvBlocks(type, elements); }
