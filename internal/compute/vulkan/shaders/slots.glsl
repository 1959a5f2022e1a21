// Where a layer's experts lie among those that the matrices hold: their slots. An includer defines TABLE, a binding, and push.tabled, without which
// expert e is at e. An expert whose slot is not below push.experts is not there.

layout(set = 0, binding = TABLE, std430) readonly buffer Table { uint table[]; }; // [experts of the layer]

const uint NOWHERE = 0xffffffffu; // is no slot

uint slotOf(uint expert) { return push.tabled == 0 ? expert : expert < table.length() ? table[expert] : NOWHERE; }

// slotChosen is the slot of an expert that a choice names. Rows of padding have any numbers where choices are copied from another device: what names no expert is nowhere.
uint slotChosen(float expert) { return expert >= 0 && expert < 65536 ? slotOf(uint(expert)) : NOWHERE; }
