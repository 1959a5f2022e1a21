// Where a product's operands lie: of a matrix; with BY_HEAD defined, of the head that the workgroup's z is, whose rows are push.rows; with BY_EXPERT
// defined, of an expert, whose rows are in its slot, if it has one. Its product is of the pair of a token and an expert that z is, or, with SORTED defined, of all pairs
// of the expert in slot z.

#ifdef BY_EXPERT

layout(set = 0, binding = 5, std430) readonly buffer Choice { float choice[]; }; // [tokens, 2·used] of each token its experts, then their weights

// Pairs count from those of token push.firstAct on.
float chosen(uint pair, uint what) { return choice[((push.firstAct + pair / push.used) * 2 + what) * push.used + pair % push.used]; }

#ifdef SORTED
layout(set = 0, binding = 7, std430) readonly buffer Sorted { uint sorted[]; }; // [experts + 1] where the pairs of each slot's expert begin, and pairs behind that
uint slot() { return gl_WorkGroupID.z; }
uint count() { return sorted[slot() + 1] - sorted[slot()]; }
uint pairAt(uint t) { return sorted[push.experts + 1 + sorted[slot()] + t]; }
#else
#define TABLE 6
#include "slots.glsl"
uint pairAt(uint t) { return gl_WorkGroupID.z; }
uint slot() { return slotChosen(chosen(pairAt(0), 0)); }
uint count() { return slot() < push.experts ? 1 : 0; }
#endif

uint rowAt(uint r) { return slot() * push.perExpert + push.fromRow + r; }                       // in the whole matrix
uint biasAt(uint r) { return uint(chosen(pairAt(0), 0)) * push.perExpert + push.fromRow + r; } // vectors have all experts, by their numbers
bool here(uint r) { return rowAt(r) - push.firstRow < push.partRows; }                          // other rows are another part's
uint weightRow(uint r) { return here(r) ? rowAt(r) - push.firstRow : 0; }
uint actRow(uint t) { return push.ofPairs != 0 ? pairAt(t) : push.firstAct + pairAt(t) / push.used; }
uint outAt(uint t, uint r) { return pairAt(t) * push.stride + r; }
float weighed(float sum, uint t) { return push.weighed != 0 ? sum * chosen(pairAt(t), 1) : sum; }

#else

uint count() { return push.tokens; }
bool here(uint r) { return true; }
uint biasAt(uint r) { return push.firstRow + r; }
float weighed(float sum, uint t) { return sum; }

#ifdef BY_HEAD
uint weightRow(uint r) { return gl_WorkGroupID.z * push.rows + r; }
uint actRow(uint t) { return (push.firstAct + t) * push.heads + gl_WorkGroupID.z; }
uint outAt(uint t, uint r) { return (push.firstOut + t) * push.stride + push.firstOfHeads + gl_WorkGroupID.z * push.headStep + r; }
#else
#ifdef APART
uint weightRow(uint r) { return push.fromRow + r; }
#else
uint weightRow(uint r) { return r; }
#endif
uint actRow(uint t) { return push.firstAct + t; }
uint outAt(uint t, uint r) { return (push.firstOut + t) * push.stride + push.firstRow + r; }
#endif

#endif
