// Activations in eight bits: four quants to a word, and for every 32 elements, behind the quants, a scale and the sums of the
// quants in both halves, sixteen bits each. An includer defines PACKED, their binding; workgroups have at most PACKERS invocations, in eights.

layout(set = 0, binding = PACKED, std430) writeonly buffer PackedQuants { uint packedQuants[]; };
layout(set = 0, binding = PACKED, std430) writeonly buffer PackedScales { uvec2 packedScales[]; };

const uint PART = 4, PARTS = 8; // a block of 32 is eight invocations' parts of four

#ifndef PACKERS
#define PACKERS 256
#endif

shared uint tops_[PACKERS]; // bits of magnitudes, which are ordered as the numbers are; NaN's are above them
shared int quants_[PACKERS];

// pack packs part i of all, whose elements are v, if it is there; scales is where scales begin, in pairs of words. All invocations of a
// workgroup call it, eight neighbours with one block. Scales are multiplied by factor.
void pack(uint i, bool here, vec4 v, uint scales, float factor) {
	uint id = gl_LocalInvocationID.x, block = id / PARTS * PARTS;
	uvec4 a = floatBitsToUint(v) & 0x7fffffffu;
	tops_[id] = max(max(a.x, a.y), max(a.z, a.w));
	barrier();
	uint bits = 0;
	[[unroll]] for (uint j = 0; j < PARTS; j++)
		bits = max(bits, tops_[block + j]);
	float top = uintBitsToFloat(bits);
	// What is smaller than the smallest number with an inverse is nothing. NaN and infinity stay, as the scale.
	precise float inverse = top > 1e-36 ? 127 / top : 0, scale = bits >= 0x7f800000u ? top : inverse == 0 ? 0 : top / 127;
	precise vec4 scaled = v * inverse;
	ivec4 q = ivec4(roundEven(scaled));
	quants_[id] = q.x + q.y + q.z + q.w;
	barrier();
	if (!here)
		return;
	packedQuants[i] = uint(q.x & 255 | (q.y & 255) << 8 | (q.z & 255) << 16 | q.w << 24);
	if (id == block) {
		precise float multiplied = scale * factor;
		ivec2 sums = ivec2(0);
		[[unroll]] for (uint j = 0; j < PARTS; j++)
			sums[j / (PARTS / 2)] += quants_[block + j];
		packedScales[scales + i / PARTS] = uvec2(floatBitsToUint(multiplied), sums.x & 0xffff | sums.y << 16);
	}
}

void pack(uint i, bool here, vec4 v, uint scales) { pack(i, here, v, scales, 1); }
