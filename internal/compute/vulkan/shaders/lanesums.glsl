// Sums of rows that the LANES invocations of each of GROUPS groups have parts of: SUMS of each group, added in the order of product.glsl. An includer has
// GROUPS and SUMS. CHUNK of the sums are added at a time, because shared memory has few kilobytes.

const uint ROOM = 2048 / (GROUPS * (LANES + 1)), CHUNK = ROOM < 1 ? 1 : ROOM < SUMS ? ROOM : SUMS;

shared float parts[GROUPS * CHUNK * (LANES + 1)]; // one more, for shared memory's banks

// share gives the workgroup CHUNK of an invocation's parts, from from on. All invocations call it.
void share(float sums[SUMS], uint from) {
	uint group = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES;
	barrier();
	[[unroll]] for (uint i = 0; i < CHUNK; i++)
		if (from + i < SUMS)
			parts[(group * CHUNK + i) * (LANES + 1) + lane] = sums[min(from + i, SUMS - 1)];
	barrier();
}

// laneSum is sum i % CHUNK, of those that were shared last, of group i / CHUNK.
float laneSum(uint i) {
	precise float sum = 0;
	for (uint l = 0; l < LANES; l++)
		sum += parts[i * (LANES + 1) + l];
	return sum;
}
