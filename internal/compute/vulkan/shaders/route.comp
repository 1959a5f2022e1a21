#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

// The experts of each token and their weights: package ref's Route. A workgroup for each token.
//
// Experts are ranked by integers in the order of their floats, so that nothing depends on how a processor compares what is no number.

const uint MOST = 1024; // experts; experts.go says the same
const uint SOFTMAX = 0, SIGMOID = 1, SOFTMAX_CHOSEN = 2, ROOT_SOFTPLUS = 3; // compute.Score

layout(set = 0, binding = 0, std430) writeonly buffer Choice { float choice[]; }; // [tokens, 2·used]
layout(set = 0, binding = 1, std430) readonly buffer Logits { float logits[]; };  // [tokens, experts]
layout(set = 0, binding = 2, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3, std430) readonly buffer Factors { float factors[]; };
layout(set = 0, binding = 4, std430) readonly buffer Chosen { float chosen[]; }; // [tokens, used]
layout(push_constant) uniform Push {
	uint experts, used;
	uint score;
	uint ranked; // by scores, not by logits
	uint biased;
	uint groups, groupsUsed, groupBest; // Routing.GroupBest
	uint normalised;
	float minSum;
	float scale;
	uint factored;
	uint given; // experts are chosen already
} push;

const uint LOWEST = 0x007fffffu; // rank of -∞

shared float scores[MOST];
shared uint ranks[MOST];
shared uint best[gl_WorkGroupSize.x], bestAt[gl_WorkGroupSize.x];
shared float sums[MOST]; // of groups
shared uint pick[MOST];  // the chosen, by rank; of groups, whether they are used
shared uint broken;      // a logit is no number

bool isNumber(float v) { return (floatBitsToUint(v) & 0x7fffffffu) <= 0x7f800000u; }

uint rankOf(float v) {
	uint b = floatBitsToUint(v);
	if (!isNumber(v))
		return LOWEST;
	return b >> 31 != 0 ? ~b : b | 0x80000000u;
}

float ofRank(uint r) { return uintBitsToFloat(r >> 31 != 0 ? r & 0x7fffffffu : ~r); }

// highest is the place of the largest of ranks [n], of equals the first; all invocations call it. Ranks of what was taken are 0.
uint highest(uint n) {
	uint i = gl_LocalInvocationID.x, most = 0, at = 0;
	for (uint e = i; e < n; e += gl_WorkGroupSize.x)
		if (ranks[e] > most) {
			most = ranks[e];
			at = e;
		}
	best[i] = most;
	bestAt[i] = at;
	for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
		barrier();
		if (i < half_ && (best[i + half_] > best[i] || best[i + half_] == best[i] && bestAt[i + half_] < bestAt[i])) {
			best[i] = best[i + half_];
			bestAt[i] = bestAt[i + half_];
		}
	}
	barrier();
	uint place = bestAt[0];
	barrier();
	return place;
}

// excludeGroups makes the rank of experts whose group is not used that of -∞.
void excludeGroups() {
	uint size = push.experts / push.groups;
	for (uint g = gl_LocalInvocationID.x; g < push.groups; g += gl_WorkGroupSize.x) {
		uint first = 0, second = 0;
		for (uint e = g * size; e < (g + 1) * size; e++) {
			uint r = ranks[e];
			if (r > first) {
				second = first;
				first = r;
			} else if (r > second)
				second = r;
		}
		sums[g] = ofRank(first) + (push.groupBest > 1 ? ofRank(second) : 0.0);
		pick[g] = 0;
	}
	barrier();
	if (gl_LocalInvocationID.x == 0)
		for (uint k = 0; k < push.groupsUsed; k++) {
			uint most = 0, at = 0;
			for (uint g = 0; g < push.groups; g++)
				if (pick[g] == 0 && rankOf(sums[g]) > most) {
					most = rankOf(sums[g]);
					at = g;
				}
			pick[at] = 1;
		}
	barrier();
	for (uint e = gl_LocalInvocationID.x; e < push.experts; e += gl_WorkGroupSize.x)
		if (pick[e / size] == 0)
			ranks[e] = LOWEST;
	barrier();
}

// softplusOf is ln(1+x) of an x from 0 to 1, which may be small.
float softplusOf(float x) { return x < 1e-3 ? x * (1 - x * (0.5 - x / 3)) : log(1 + x); }

// softmax makes the first n of scores their softmax; all invocations call it.
void softmax(uint n) {
	uint i = gl_LocalInvocationID.x;
	float top = uintBitsToFloat(0xff800000u), sum = 0;
	for (uint e = i; e < n; e += gl_WorkGroupSize.x)
		top = max(top, scores[e]);
	top = groupMax(top);
	for (uint e = i; e < n; e += gl_WorkGroupSize.x) {
		scores[e] = exp(scores[e] - top);
		sum += scores[e];
	}
	sum = groupSum(sum);
	for (uint e = i; e < n; e += gl_WorkGroupSize.x)
		scores[e] /= sum;
	barrier();
}

void main() {
	uint token = gl_WorkGroupID.x, i = gl_LocalInvocationID.x, n = push.experts;
	if (i == 0)
		broken = 0;
	barrier();
	for (uint e = i; e < n; e += gl_WorkGroupSize.x) {
		float l = logits[token * n + e];
		if (!isNumber(l))
			broken = 1;
		ranks[e] = rankOf(push.biased != 0 && push.ranked == 0 ? l + bias[e] : l);
		scores[e] = push.score == SIGMOID ? sigmoid(l) : push.score == ROOT_SOFTPLUS ? sqrt(max(l, 0) + softplusOf(exp(-abs(l)))) : l;
	}
	barrier();
	if (push.score == SOFTMAX)
		softmax(n);
	if (push.ranked != 0) {
		for (uint e = i; e < n; e += gl_WorkGroupSize.x)
			ranks[e] = rankOf(push.biased != 0 ? scores[e] + bias[e] : scores[e]);
		barrier();
		if (push.groups != 0)
			excludeGroups();
	}
	if (push.given != 0) {
		for (uint k = i; k < push.used; k += gl_WorkGroupSize.x)
			pick[k] = min(uint(max(int(chosen[token * push.used + k]), 0)), n - 1);
		barrier();
	}
	for (uint k = 0; k < push.used && push.given == 0; k++) {
		uint e = highest(n);
		if (i == 0) {
			pick[k] = e;
			ranks[e] = 0;
		}
		barrier();
	}
	float mine[(MOST + 63) / 64]; // scores of the chosen, for the softmax of them in place
	for (uint k = i, j = 0; k < push.used; k += gl_WorkGroupSize.x, j++)
		mine[j] = scores[pick[k]];
	barrier();
	for (uint k = i, j = 0; k < push.used; k += gl_WorkGroupSize.x, j++)
		scores[k] = mine[j];
	barrier();
	if (push.score == SOFTMAX_CHOSEN)
		softmax(push.used);
	float by = push.scale;
	if (push.normalised != 0) {
		float sum = 0;
		for (uint k = 0; k < push.used; k++)
			sum += scores[k];
		by /= max(sum, push.minSum);
	}
	for (uint k = i; k < push.used; k += gl_WorkGroupSize.x) {
		choice[token * 2 * push.used + k] = float(pick[k]);
		float w = scores[k] * by;
		if (push.factored != 0)
			w *= factors[pick[k]];
		choice[(token * 2 + 1) * push.used + k] = broken != 0 ? uintBitsToFloat(0x7fc00000u) : w;
	}
}
