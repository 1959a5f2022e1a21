// Tiles of halves by cooperative matrices: a subgroup multiplies M rows and K columns by N tokens at once. Sums are added to in the order
// of columns, K at a time, and so depend on the device, but on neither the tile nor the other tokens.
//
// Debian's glslang knows the NVIDIA extension that VK_KHR_cooperative_matrix came from; compile translates its few instructions.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
#define COOPERATIVE
#include "halftile.glsl"

layout(constant_id = 8) const uint M = 16;
layout(constant_id = 9) const uint N = 16;
layout(constant_id = 10) const uint K = 16;

#define Rows fcoopmatNV<16, gl_ScopeSubgroup, M, K>
#define Tokens fcoopmatNV<16, gl_ScopeSubgroup, K, N>
#define Sums fcoopmatNV<32, gl_ScopeSubgroup, M, N>

// The tile's subgroups lie ABREAST in rows; each has MATRICES_ROWS·MATRICES_TOKENS matrices of sums.
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint ABREAST = SUBGROUPS <= 1 ? 1 : SUBGROUPS <= 4 ? 2 : SUBGROUPS <= 16 ? 4 : 8;
const uint EACH_ROWS = TILE_ROWS / ABREAST, EACH_TOKENS = TILE_TOKENS / (SUBGROUPS / ABREAST);
const uint MATRICES_ROWS = EACH_ROWS / M, MATRICES_TOKENS = EACH_TOKENS / N;

shared float sums_[SUBGROUPS * M * N]; // on their way to memory

void main() {
	uint firstRow = gl_WorkGroupID.x * TILE_ROWS, firstToken = gl_WorkGroupID.y * TILE_TOKENS;
	uint row = gl_SubgroupID % ABREAST * EACH_ROWS, token = gl_SubgroupID / ABREAST * EACH_TOKENS;
	Sums sums[MATRICES_ROWS * MATRICES_TOKENS];
	[[unroll]] for (uint i = 0; i < MATRICES_ROWS * MATRICES_TOKENS; i++)
		sums[i] = Sums(0);
	for (uint step = 0; step < steps(); step++) {
		barrier();
		stage(firstRow, firstToken, step);
		barrier();
		[[unroll]] for (uint k = 0; k < STEP; k += K) {
			Rows w[MATRICES_ROWS];
			[[unroll]] for (uint r = 0; r < MATRICES_ROWS; r++) {
				if (NEURONS)
					coopMatLoadNV(w[r], rowHalves, k * NEURON_PITCH + (row + r * M) / 4, NEURON_PITCH, true);
				else
					coopMatLoadNV(w[r], rowHalves, (row + r * M) * PITCH + k / 4, PITCH, false);
			}
			[[unroll]] for (uint t = 0; t < MATRICES_TOKENS; t++) {
				Tokens a;
				coopMatLoadNV(a, tokenHalves, (token + t * N) * PITCH + k / 4, PITCH, true);
				[[unroll]] for (uint r = 0; r < MATRICES_ROWS; r++)
					sums[t * MATRICES_ROWS + r] = coopMatMulAddNV(w[r], a, sums[t * MATRICES_ROWS + r]);
			}
		}
	}
	uint mine = gl_SubgroupID * M * N;
	[[unroll]] for (uint i = 0; i < MATRICES_ROWS * MATRICES_TOKENS; i++) {
		coopMatStoreNV(sums[i], sums_, mine, M, true);
		subgroupBarrier();
		for (uint j = gl_SubgroupInvocationID; j < M * N; j += SUBGROUP)
			put(firstRow + row + i % MATRICES_ROWS * M + j % M, firstToken + token + i / MATRICES_ROWS * N + j / M, sums_[mine + j]);
		subgroupBarrier();
	}
}
