#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Reads n quads, all of which hold word, and does nothing with them that a compiler could leave out.

layout(set = 0, binding = 0, std430) readonly buffer X { uvec4 x[]; };
layout(set = 0, binding = 1, std430) buffer Sum { uint sum; };
layout(push_constant) uniform Push { uint n; uint word; } push;

void main() {
	uvec4 other = uvec4(0);
	uint i = first(), step = stride();
	for (; i + 3 * step < push.n; i += 4 * step) { // four loads on their way at a time
		uvec4 a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step];
		other |= (a ^ push.word) | (b ^ push.word) | (c ^ push.word) | (d ^ push.word);
	}
	for (; i < push.n; i += step) other |= x[i] ^ push.word;
	if ((other.x | other.y | other.z | other.w) != 0) sum = 1;
}
