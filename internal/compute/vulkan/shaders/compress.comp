#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Puts together what a cache keeps of the positions of a block, where a token's position ends one: package ref's Compress. An invocation
// has an element.

layout(constant_id = 2) const bool OVERLAP = false;

layout(set = 0, binding = 0, std430) writeonly buffer Out { float result[]; };     // [tokens, cols]
layout(set = 0, binding = 1, std430) readonly buffer Keys { float keyCache[]; };     // F32; kv.go has the layout
layout(set = 0, binding = 2, std430) readonly buffer Values { float valueCache[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };       // [block, columns]
layout(push_constant) uniform Push {
	uint n, cols;
	uint width; // columns of the cache's keys
	uint block, at;
	uint room, outs;
	uint near; // 1: the layer is one of those with windows; else 0
} push;
#define PARAMS 4
#define ROWS push.room
#define OUT push.outs
#include "params.glsl"

void main() {
	uint columns = OVERLAP ? 2 * push.cols : push.cols;
	for (uint i = first(); i < push.n; i += stride()) {
		uint t = i / push.cols, j = i % push.cols;
		if (padding(t) || (position(t) + 1) % push.block != 0) {
			result[i] = 0;
			continue;
		}
		uint own = position(t) + 1 - push.block, from = OVERLAP && own > 0 ? own - push.block : own, sequence_ = sequence(t);
		float top = 0, sum = 0, all = 0;
		[[dont_unroll]] for (uint p = from; p <= position(t); p++) {
			uint column = OVERLAP && p >= own ? push.cols + j : j, page_ = page(sequence_, p / 64, push.near) * 64;
			float value = keyCache[(page_ * push.width) + (push.at + column) * 64 + p % 64];
			float score = valueCache[(page_ + p % 64) * push.width + push.at + column] + bias[p % push.block * columns + column];
			if (p == from || score > top) {
				float by = p == from ? 0 : exp(top - score);
				sum *= by;
				all *= by;
				top = score;
			}
			precise float w = exp(score - top);
			sum = fma(w, value, sum);
			all += w;
		}
		result[i] = sum / all;
	}
}
