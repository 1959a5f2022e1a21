// Decodes quantised weights to halves for workgroup.comp: some pieces of each of some rows of memory. An invocation decodes a piece.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

#define WEIGHTS 0
#include "columns.glsl" // constant 3
#include "piece.glsl"

layout(set = 0, binding = 1, std430) writeonly buffer Out { uvec4 halves[]; }; // [rows, linePieces·16] halves

layout(push_constant) uniform Push {
	Weights w;
	uint pieces;     // in all
	uint linePieces; // of a row
	uint firstRow, firstPiece;
} push;

void main() {
	for (uint i = first(); i < push.pieces; i += stride()) {
		uint line = i / push.linePieces, p = i % push.linePieces, row = push.firstRow + line, piece = push.firstPiece + p;
		uvec4 low, high;
		halvesOfPiece(push.w, loadPiece(push.w, row, piece), row, piece, low, high);
		uint at = line * push.linePieces * (PIECE / 8);
		halves[at + run(p, 0) / 8] = low;
		halves[at + run(p, 1) / 8] = high;
	}
}
