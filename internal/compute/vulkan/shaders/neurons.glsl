// The order in which down columns of neurons are summed.
//
// Neuron i belongs to lane i mod NEURON_LANES. A lane adds its neurons in ascending order. LANE_GROUP neighbouring lanes are a group, which adds
// them in order, and the groups are added in order, so that the bytes of a sum depend on which neurons are in it and on nothing else.

const uint NEURON_LANES = 256, LANE_GROUP = 16, LANE_GROUPS = NEURON_LANES / LANE_GROUP;

// A neuron's a is zero where it adds nothing: CLOSED where its gate is, STALE where its gate is open and the product is zero.
const uint CLOSED = 0, STALE = 0x80000000u;

// marked is the a of a neuron whose gate is open, as bits.
uint marked(float a) { return a == 0 ? STALE : floatBitsToUint(a); }
