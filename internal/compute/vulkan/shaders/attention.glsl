// How parts of a softmax are put together, in attention.comp and combine.comp alike: in the same order, to the same bytes.

// SPLIT positions of a sequence are attended to at a time, whatever the step's tokens.
#ifndef SPLIT
const uint SPLIT = 256;
#endif

// A part of the softmax of one query: the largest score, and the sum of all exponentials relative to it.
struct Part {
	float top, sum;
};

// merge adds split s to a part and returns by what the part's values, and those of the split, are multiplied.
vec2 merge(inout Part p, Part s, bool first) {
	if (first) {
		p = s;
		return vec2(0, 1);
	}
	float top = max(p.top, s.top);
	precise float old = exp(p.top - top), new = exp(s.top - top);
	precise float sum = fma(p.sum, old, s.sum * new);
	p.top = top;
	p.sum = sum;
	return vec2(old, new);
}

// withSink is by what a part's values are multiplied where one more score, without a value, takes its share.
float withSink(Part p, float sink) {
	float top = max(p.top, sink);
	precise float old = exp(p.top - top);
	precise float sum = fma(p.sum, old, exp(sink - top));
	precise float by = old / sum;
	return by;
}

// merged is a value of the part with the split's added.
float merged(float value, float split, vec2 by) {
	precise float v = fma(value, by.x, split * by.y);
	return v;
}
