#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A row for which something is given becomes it, or with ADD has it added.

layout(constant_id = 2) const bool ADD = false;

layout(set = 0, binding = 0, std430) buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Has { uint has[]; }; // [rows]: 1 where something is given
layout(set = 0, binding = 1, std430) readonly buffer Given { float given[]; }; // after it [rows, cols]
layout(push_constant) uniform Push { uint n, cols, rows; } push;

void main() {
	for (uint i = first(); i < push.n; i += stride())
		if (has[i / push.cols] == 1)
			x[i] = ADD ? x[i] + given[push.rows + i] : given[push.rows + i];
}
