// Lists of neurons, and the order in which their down columns are summed.
//
// Neuron i belongs to lane i/32 mod NEURON_LANES. A lane adds its neurons in ascending order, and the lanes are added in order, so
// that the bytes of a sum depend on which neurons are in it and on nothing else. Lists are ordered by lane, then by neuron.

const uint NEURON_LANES = 64;

// A list's lanes begin at offsets [NEURON_LANES + 1]; the last of them is its length.
const uint OFFSETS = NEURON_LANES + 1;
