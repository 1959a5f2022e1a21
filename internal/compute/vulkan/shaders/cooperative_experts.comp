#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
#define BY_EXPERT
#define SORTED
#include "cooperative.glsl"
