// out [n, rows] = x·Wᵀ + bias of prompts by quantised weights, in eight bits. A sum is that of a row's units in their order, in floats; a
// unit's is exact.
//
// A workgroup multiplies STEP units of its rows and tokens in shared memory while the next ones are on their way from memory to registers.
#include "common.glsl"

const bool POSITIVE = false;

#define WEIGHTS 0
#define ACTS 1
#include "product.glsl"

layout(constant_id = 3) const uint TILE_ROWS = 64; // of a workgroup
layout(constant_id = 4) const uint TILE_TOKENS = 64;
layout(constant_id = 5) const bool ADDED = false; // the result is added to total, too

const bool GROUPED = false;
#include "piece.glsl"

layout(set = 0, binding = 2, std430) writeonly buffer Out { float result[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) buffer Total { float total[]; };

layout(push_constant) uniform Push { // as in matvec.glsl
	Weights w;
	uint rows;
	uint firstRow;
	uint stride;
	uint tokens;
	uint firstAct;
	uint firstOut;
	uint actScales;
	uint biased;
} push;
#include "operands.glsl"

// The workgroup is SIDE·SIDE invocations; each has EACH_ROWS·EACH_TOKENS outputs, SIDE apart.
const uint SIDE = 16, LOCAL = SIDE * SIDE, EACH_ROWS = TILE_ROWS / SIDE, EACH_TOKENS = TILE_TOKENS / SIDE, EACH = EACH_ROWS * EACH_TOKENS;

// In shared memory a row or a token has two quads of bytes for each unit; one more keeps it off its neighbour's banks.
const uint STEP = 2, PITCH = 2 * STEP + 1;

shared ivec4 rowQuads[TILE_ROWS * PITCH];
shared ivec4 tokenQuads[TILE_TOKENS * PITCH];
shared Scale rowScales[TILE_ROWS * STEP];
shared uvec2 tokenScales[TILE_TOKENS * STEP];

const uint BRINGS = TILE_ROWS * 2 * STEP / LOCAL, ACT_BRINGS = TILE_TOKENS * 2 * STEP / LOCAL;
const uint SCALE_BRINGS = (TILE_TOKENS * STEP + LOCAL - 1) / LOCAL;

Piece piece[BRINGS];
ivec4 act[ACT_BRINGS];
uvec2 actScale[SCALE_BRINGS];

uint lineOf(uint i) { return (i * LOCAL + gl_LocalInvocationID.x) / (2 * STEP); }
uint partOf(uint i) { return (i * LOCAL + gl_LocalInvocationID.x) % (2 * STEP); }

// unitAt is where a unit of a step is; those beyond the last are the last.
uint unitAt(uint row, uint step, uint unit) { return row * push.w.units + min(step * STEP + unit, push.w.units - 1); }

uint tokenAt(uint firstToken, uint t) { return actRow(min(firstToken + t, count() - 1)); }

// bring loads what a step multiplies into registers.
void bring(uint firstRow, uint firstToken, uint step) {
	[[unroll]] for (uint i = 0; i < BRINGS; i++)
		piece[i] = loadPiece(push.w, weightRow(min(firstRow + lineOf(i), push.rows - 1)), 2 * min(step * STEP + partOf(i) / 2, push.w.units - 1) + partOf(i) % 2);
	[[unroll]] for (uint i = 0; i < ACT_BRINGS; i++)
		act[i] = actQuants[2 * unitAt(tokenAt(firstToken, lineOf(i)), step, partOf(i) / 2) + partOf(i) % 2];
	[[unroll]] for (uint i = 0; i < SCALE_BRINGS; i++) {
		uint at = min(i * LOCAL + gl_LocalInvocationID.x, TILE_TOKENS * STEP - 1);
		actScale[i] = actScales[push.actScales + unitAt(tokenAt(firstToken, at / STEP), step, at % STEP)];
	}
}

// lay writes it to shared memory. What lies beyond the last unit has no scale.
void lay(uint firstRow, uint step) {
	[[unroll]] for (uint i = 0; i < BRINGS; i++) {
		uint row = weightRow(min(firstRow + lineOf(i), push.rows - 1)), unit = partOf(i) / 2, half_ = partOf(i) % 2, at = lineOf(i) * PITCH + 2 * unit;
		ivec2 first, second;
		bytesOfPiece(piece[i], half_ == 1, first, second);
		if (BITS == 8)
			rowQuads[at + half_] = ivec4(first, second);
		else if (half_ == 0) {
			rowQuads[at].xy = first;
			rowQuads[at + 1].xy = second;
		} else {
			rowQuads[at].zw = first;
			rowQuads[at + 1].zw = second;
		}
		if (half_ == 0)
			rowScales[lineOf(i) * STEP + unit] = scaleFrom(piece[i].scales, unitAt(row, step, unit));
	}
	[[unroll]] for (uint i = 0; i < ACT_BRINGS; i++)
		tokenQuads[lineOf(i) * PITCH + partOf(i)] = act[i];
	[[unroll]] for (uint i = 0; i < SCALE_BRINGS; i++) {
		uint at = min(i * LOCAL + gl_LocalInvocationID.x, TILE_TOKENS * STEP - 1);
		tokenScales[at] = actScale[i];
	}
}

int dot16(ivec4 a, ivec4 b) { return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w); }

void main() {
	uint x = gl_LocalInvocationID.x % SIDE, y = gl_LocalInvocationID.x / SIDE;
	uint firstToken = gl_WorkGroupID.x * TILE_TOKENS, firstRow = gl_WorkGroupID.y * TILE_ROWS;
	float sums[EACH];
	[[unroll]] for (uint i = 0; i < EACH; i++)
		sums[i] = 0;
	uint steps = (push.w.units + STEP - 1) / STEP;
	bring(firstRow, firstToken, 0);
	for (uint step = 0; step < steps; step++) {
		barrier();
		lay(firstRow, step);
		barrier();
		bring(firstRow, firstToken, min(step + 1, steps - 1));
		for (uint u = 0; u < min(STEP, push.w.units - step * STEP); u++) {
			int low[EACH], high[EACH];
			[[unroll]] for (uint h = 0; h < 2; h++) {
				ivec4 w[EACH_ROWS];
				[[unroll]] for (uint r = 0; r < EACH_ROWS; r++)
					w[r] = rowQuads[(x + r * SIDE) * PITCH + 2 * u + h];
				[[unroll]] for (uint t = 0; t < EACH_TOKENS; t++) {
					ivec4 a = tokenQuads[(y + t * SIDE) * PITCH + 2 * u + h];
					[[unroll]] for (uint r = 0; r < EACH_ROWS; r++)
						if (h == 0)
							low[t * EACH_ROWS + r] = dot16(w[r], a);
						else
							high[t * EACH_ROWS + r] = dot16(w[r], a);
				}
			}
			[[unroll]] for (uint r = 0; r < EACH_ROWS; r++) {
				Scale s = rowScales[(x + r * SIDE) * STEP + u];
				[[unroll]] for (uint t = 0; t < EACH_TOKENS; t++) {
					uvec2 token = tokenScales[(y + t * SIDE) * STEP + u];
					uint i = t * EACH_ROWS + r;
					sums[i] = scaled(s, uintBitsToFloat(token.x), halfSums(token.y), low[i], high[i], sums[i]);
				}
			}
		}
	}
	[[unroll]] for (uint i = 0; i < EACH; i++) {
		uint t = firstToken + y + i / EACH_ROWS * SIDE, r = firstRow + x + i % EACH_ROWS * SIDE;
		if (t >= count() || r >= push.rows)
			continue;
		precise float sum = sums[i];
		if (push.biased != 0)
			sum += bias[biasAt(r)];
		uint at = outAt(t, r);
		result[at] = sum;
		if (ADDED)
			total[at] += sum;
	}
}
