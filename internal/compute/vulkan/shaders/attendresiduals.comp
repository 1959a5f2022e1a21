#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// A residual mixed with checkpoints of it, by the softmax of what w reads of each, brought to a mean square of 1; a workgroup for each row

const uint MOST = 255; // checkpoints

layout(set = 0, binding = 0, std430) writeonly buffer Out { float out_[]; };
layout(set = 0, binding = 1, std430) readonly buffer Stack { float stack[]; };
layout(set = 0, binding = 2, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer W { float w[]; };
layout(push_constant) uniform Push { uint rows, cols, stackCols, count; float epsilon; } push;

shared float shares[MOST + 1];

float element(uint row, uint j, uint i) { return j == push.count ? x[row * push.cols + i] : stack[row * push.stackCols + j * push.cols + i]; }

void main() {
	for (uint row = gl_WorkGroupID.x; row < push.rows; row += gl_NumWorkGroups.x) {
		float most = 0.0;
		for (uint j = 0; j <= push.count; j++) {
			float square = 0.0, product = 0.0;
			for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) {
				float e = element(row, j, i);
				square = fma(e, e, square);
				product = fma(e, w[i], product);
			}
			square = groupSum(square);
			product = groupSum(product);
			float score = product / sqrt(square / float(push.cols) + push.epsilon);
			most = j == 0 ? score : max(most, score);
			if (gl_LocalInvocationID.x == 0)
				shares[j] = score;
		}
		barrier();
		float sum = 0.0;
		for (uint j = 0; j <= push.count; j++) sum += exp(shares[j] - most);
		for (uint i = gl_LocalInvocationID.x; i < push.cols; i += gl_WorkGroupSize.x) {
			float mixed = 0.0;
			for (uint j = 0; j <= push.count; j++) mixed = fma(exp(shares[j] - most) / sum, element(row, j, i), mixed);
			out_[row * push.cols + i] = mixed;
		}
		barrier();
	}
}
