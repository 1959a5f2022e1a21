// Attention of prompts: the rows of q that a workgroup has, which share a KV head, HEADS query heads of each of its tokens; what they
// see; and how the parts of their softmax are put together. An includer has TILE, the number of rows, and the constants HEADS, DIM and
// HAS. It includes common.glsl and attention.glsl before.

const bool SINKS = (HAS & 1) != 0, SLOPES = (HAS & 2) != 0, LATER = (HAS & 4) != 0;
const bool WHOLE = (HAS & 8) != 0; // a workgroup goes through all chunks; else they are shared

layout(set = 0, binding = 5, std430) readonly buffer Sinks { float sinks[]; };  // [heads]
layout(set = 0, binding = 6, std430) readonly buffer Slopes { float falls[]; }; // [heads]
layout(set = 0, binding = 7, std430) writeonly buffer Splits { float splits[]; }; // [tokens, heads, chunks, DIM + 2]

layout(push_constant) uniform Push {
	uint tokens;    // those behind it take no part
	uint heads;     // of q
	uint kvHeads;
	float scale;
	uint room, outs;
	uint window;   // positions that a token sees; 0: all
	float softCap; // 0: none
	uint near;     // 1: the layer is one of those with windows; else 0
	uint first;    // token
	uint chunks;   // at most
#ifdef HALVES
	uint pitch;  // halves of a row of q in memory
	uint scales; // where the rows' factors begin
#endif
} push;
#define PARAMS 4
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"
#include "seen.glsl"

const uint CHUNK = 512, PAGE = 64;
const uint LOCAL = gl_WorkGroupSize.x, TOKENS = TILE / HEADS;

const float NOTHING = -3.4e38; // less than any score

// Exponentials are multiplied by this before they become halves, so that these hold smaller ones.
const float RAISED = 32768;

shared int starts[TILE], limits[TILE]; // the first and the last position that a row sees; 0, -1 where it takes no part
shared float factors[TILE];            // of a row's scores
shared vec4 merges[TILE];              // by what the result so far and a chunk's sums are, and in the end the sum
shared int begin_, end_;
shared uint runEnd;

uint id = gl_LocalInvocationID.x;
uint kvHead, firstHead, firstToken;

// place finds the workgroup's rows.
void place() {
	uint group = push.heads / push.kvHeads, tiles = (group + HEADS - 1) / HEADS;
	kvHead = gl_WorkGroupID.y / tiles;
	firstHead = kvHead * group + gl_WorkGroupID.y % tiles * HEADS;
	firstToken = push.first + (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TOKENS; // the latest, which see most, first
}

uint tokenOf(uint row) { return firstToken + row / HEADS; }
uint headOf(uint row) { return firstHead + row % HEADS; }
bool exists(uint row) { return row / HEADS < TOKENS && tokenOf(row) < push.tokens && headOf(row) < (kvHead + 1) * (push.heads / push.kvHeads); }

// splitAt is where the part of a row and chunk lies that combine.comp takes.
uint splitAt(uint row, uint chunk) {
	return (((tokenOf(row) - push.first) * push.heads + headOf(row)) * push.chunks + chunk) * (DIM + 2);
}

uint blockOf(uint seq, int position) { return page(seq, uint(position) / PAGE, push.near) * push.kvHeads + kvHead; }

// settle puts a chunk's part with the row's parts before, or leaves it to combine.comp. It returns what merges holds.
vec4 settle(uint row, uint chunk, Part part, inout Part whole) {
	vec4 by = vec4(0, 0, 1, 0);
	if (limits[row] < int(chunk * CHUNK) || starts[row] >= int((chunk + 1) * CHUNK))
		return by;
	if (!WHOLE) {
		uint at = splitAt(row, chunk);
		splits[at] = part.top;
		splits[at + 1] = part.sum;
		by.y = 1;
		return by;
	}
	by.xy = merge(whole, part, uint(starts[row]) / CHUNK == chunk);
	if (uint(limits[row]) / CHUNK == chunk)
		by.zw = vec2(SINKS ? withSink(whole, sinks[headOf(row)]) : whole.sum, 1);
	return by;
}

// range finds out what tokens from…end of the tile, which are of one sequence, see.
void range(uint from, uint end) {
	barrier();
	if (id == 0) {
		begin_ = 0x7fffffff;
		end_ = -1;
	}
	barrier();
	for (uint row = id; row < TILE; row += LOCAL) {
		uint t = row / HEADS;
		bool takesPart = exists(row) && !padding(tokenOf(row)) && t >= from && t < end;
		starts[row] = takesPart ? firstSeen(tokenOf(row), push.window, LATER) : 0;
		limits[row] = takesPart ? lastSeen(tokenOf(row), push.window, LATER) : -1;
		if (takesPart) {
			atomicMin(begin_, starts[row]);
			atomicMax(end_, limits[row]);
		}
	}
	barrier();
}

// run returns the end of the tokens from t on that are of one sequence.
uint run(uint t, uint tokens) {
	barrier();
	if (id == 0)
		runEnd = tokens;
	barrier();
	uint seq = sequence(firstToken + t);
	for (uint other = t + id; other < tokens; other += LOCAL)
		if (sequence(firstToken + other) != seq)
			atomicMin(runEnd, other);
	barrier();
	return runEnd;
}
