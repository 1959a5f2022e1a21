// Rows of a table, for which an includer defines ROW(i), the row for token i, and PUT(at, value).

layout(set = 0, binding = 0, std430) buffer Dst { float dst[]; };
#define WEIGHTS 1
#include "weights.glsl"
layout(push_constant) uniform Push {
	uint rows, cols;
	uint begin, count; // rows of the table that are in this binding
	uint offset;       // of positions, or of types in the params
	uint room;         // rows of the params
	uint units, a, b, c;
} push;
#define PARAMS 2
#define ROWS push.room
#define OUT 0
#include "params.glsl"

void main() {
	Weights w = Weights(push.units, push.a, push.b, push.c);
	uint perRow = slots(w);
	for (uint i = first(); i < push.rows * perRow; i += stride()) {
		uint t = i / perRow, slot = i % perRow, row = ROW(t) - push.begin;
		if (row >= push.count) continue;
		float f[8];
		decode(w, row, slot, f);
		[[unroll]] for (uint k = 0; k < 8; k++) {
			uint col = column(slot, k), at = t * push.cols + col;
			if (col < push.cols) PUT(at, f[k]);
		}
	}
}
