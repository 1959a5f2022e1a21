// Where a layer's experts lie among those that the matrices hold: their slots. An includer defines TABLE, a binding, and push.tabled, without which
// expert e is at e. An expert whose slot is not below push.experts is not there.

layout(set = 0, binding = TABLE, std430) readonly buffer Table { uint table[]; }; // [experts of the layer]

uint slotOf(uint expert) { return push.tabled != 0 ? table[expert] : expert; }
