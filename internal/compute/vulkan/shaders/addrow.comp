#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x[i] += table[offset]

#define ROW(i) push.offset
#define PUT(at, value) dst[at] += value
#include "lookup.glsl"
