// Tiles by cooperative matrices: a subgroup multiplies M rows and K columns by N tokens at once. Sums are added to in the order of columns,
// K at a time, and so depend on the device, but on neither the tile nor the other tokens.
//
// A workgroup multiplies STEP columns of its rows and tokens in shared memory while the next ones are on their way from memory to
// registers. With two BUFFERS those become halves in the other one, and the workgroup waits once for each step; with one it waits twice.
//
// Debian's glslang knows the NVIDIA extension that VK_KHR_cooperative_matrix came from; compile translates its few instructions.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
#include "cooperative.glsl"
