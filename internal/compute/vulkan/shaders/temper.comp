#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// x[i] *= 1 + scale·ln(1 + ⌊(Pos[i]+offset)/size⌋): package ref's Temper

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n, cols, room; float scale; uint size, offset; } push;
#define PARAMS 1
#define ROWS push.room
#define OUT 0
#include "params.glsl"

void main() {
	for (uint i = first(); i < push.n; i += stride())
		x[i] *= 1.0 + push.scale * log(float(1 + (position(i / push.cols) + push.offset) / push.size));
}
