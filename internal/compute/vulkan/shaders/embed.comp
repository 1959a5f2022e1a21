#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// dst[i] = table[Tokens[i]]

#define ROW(i) token(i)
#define PUT(at, value) dst[at] = value
#include "lookup.glsl"
