// The sum of a row's squares, in one order everywhere: a block has 32 elements, whose quads are summed in order; block b belongs to lane b mod 32, which
// adds its blocks in order, and the lanes are added in order.

const uint BLOCK_QUADS = 8, SQUARE_LANES = 32;

float quadSquares(vec4 v) {
	precise float s = v.x * v.x;
	s = fma(v.y, v.y, s);
	s = fma(v.z, v.z, s);
	s = fma(v.w, v.w, s);
	return s;
}

// rootOf is what an RMSNorm divides by, for the sum of so many squares.
float rootOf(float sum, uint elements, float eps) {
	precise float mean = sum / float(elements) + eps;
	return sqrt(mean);
}

// normed is an element of an RMSNorm: x, which is multiplied by its weight already, divided by the root.
vec4 normed(vec4 weighed, float root) {
	precise vec4 y = weighed / root;
	return y;
}

// rooted is the scale of elements that were packed before they were divided by the root, of which by is the inverse.
float rooted(float scale, float by) {
	precise float d = scale * by;
	return d;
}
