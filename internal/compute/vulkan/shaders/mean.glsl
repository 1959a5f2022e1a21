// The mean of a row's elements over a workgroup. It is what remains of numbers that cancel, so their sum is kept as a number and what rounding took from it.

shared vec2 sums_[gl_WorkGroupSize.x];

vec2 plus(vec2 a, vec2 b) {
	precise float s = a.x + b.x;
	precise float t = s - a.x;
	precise float lost = (a.x - (s - t)) + (b.x - t);
	return vec2(s, a.y + b.y + lost);
}

// groupMean is the sum of v over the workgroup divided by n, in every invocation; all of them call it.
float groupMean(vec2 v, uint n) {
	uint me = gl_LocalInvocationID.x;
	sums_[me] = v;
	barrier();
	for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
		if (me < half_) sums_[me] = plus(sums_[me], sums_[me + half_]);
		barrier();
	}
	v = sums_[0];
	barrier();
	return (v.x + v.y) / float(n);
}
