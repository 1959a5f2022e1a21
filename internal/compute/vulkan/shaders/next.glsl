// The beginning of the RMSNorm of total, which a workgroup has blocks of: of each block total·weights, to be packed, and the sum of total's squares. An
// includer has NEXT, whether there is a norm, TOKENS, which the workgroup has a block of each of, and push.squares, where the sums begin.

layout(set = 0, binding = PACKED, std430) writeonly buffer PackedNumbers { float packedNumbers[]; };
layout(set = 0, binding = 8, std430) readonly buffer NormWeights { vec4 normWeights[]; };

shared float quads[NEXT ? BLOCK_QUADS * TOKENS : 1];

// begun is what is to be packed of the workgroup's quad i, which is quad at of its row.
vec4 begun(vec4 total, uint at, uint i) {
	quads[i] = quadSquares(total);
	precise vec4 weighed = total * normWeights[at];
	return weighed;
}

// writeSquares writes the sum of the block that begins with the workgroup's quad i, after a barrier.
void writeSquares(uint i, uint block) {
	precise float sum = 0;
	[[unroll]] for (uint q = 0; q < BLOCK_QUADS; q++)
		sum += quads[i + q];
	packedNumbers[push.squares + block] = sum;
}
