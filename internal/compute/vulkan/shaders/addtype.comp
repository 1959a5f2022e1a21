#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x[i] += table[Types[i]]

#define ROW(i) params[push.offset + i]
#define PUT(at, value) dst[at] += value
#include "lookup.glsl"
