// Decodes a matrix to halves, in rows of whole units as they lie in memory, for workgroup.comp. An invocation decodes a piece.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl" // constant 3
#include "piece.glsl"

layout(set = 0, binding = 1, std430) writeonly buffer Out { uvec4 halves[]; };

layout(push_constant) uniform Push {
	Weights w;
	uint pieces; // of all rows
} push;

void main() {
	for (uint i = first(); i < push.pieces; i += stride()) {
		uint row = i / pieces(push.w), p = i % pieces(push.w), at = row * push.w.units * UNIT / 8;
		uvec4 low, high;
		halvesOfPiece(push.w, loadPiece(push.w, row, p), row, p, low, high);
		halves[at + run(p, 0) / 8] = low;
		if (QUANTISED)
			halves[at + run(p, 1) / 8] = high;
	}
}
