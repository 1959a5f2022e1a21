// How a KV cache's types lie; kv.go says the same. The numbers are compute.KVType's.
const uint KV_F16 = 0, KV_BF16 = 1, KV_F32 = 2, KV_Q8_0 = 3, KV_Q4_0 = 4;

// kvBlocks is the number of a head's blocks that have a scale.
uint kvBlocks(uint type, uint elements) { return type >= KV_Q8_0 ? elements / 32 : 0; }

// kvWords is the number of words of a position's elements of a head: KV_WORDS, as a constant of constants.
#define KV_WORDS(type, elements) ((type) == KV_F32 ? (elements) : (type) == KV_Q8_0 ? (elements) / 4 : (type) == KV_Q4_0 ? (elements) / 8 : (elements) / 2)
uint kvWords(uint type, uint elements) { return KV_WORDS(type, elements); }

// kvUnits is the number of pieces that are stored at a time: pairs, or blocks.
uint kvUnits(uint type, uint elements) { return type >= KV_Q8_0 ? elements / 32 : elements / 2; }

// kvHeadWords is the number of words of a head's page.
uint kvHeadWords(uint type, uint elements) { return 64 * kvWords(type, elements) + 32 * kvBlocks(type, elements); }
