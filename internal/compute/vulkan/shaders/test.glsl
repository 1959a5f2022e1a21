// Which neurons a product makes members of a set.

const uint NONE = 0;  // no set is made
const uint LOGIT = 1; // the first neurons always, those behind them whose logit reaches the step's threshold
const uint OPEN = 2;  // those whose act(product) is not zero, which takes the product's place

bool member(uint test, bool always, Nonlinearity act, inout float product) {
	if (test == OPEN) {
		float a = activation(act, product);
		product = a == 0 ? 0 : a;
		return a != 0;
	}
	return test == LOGIT && (always || product >= threshold());
}
