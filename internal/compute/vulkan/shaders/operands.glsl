// Where a product's operands lie: of a matrix; with BY_HEAD defined, of the head that the workgroup's z is, whose rows are push.rows; with BY_EXPERT
// defined, of an expert, counted from push.fromExpert on, of which there are push.experts; a pair's expert may be another one. An expert's product is of the pair of a token and an expert that z is, or, with SORTED defined, of all pairs of expert z.

#ifdef BY_EXPERT

layout(set = 0, binding = 5, std430) readonly buffer Choice { float choice[]; }; // [tokens, 2·used] of each token its experts, then their weights

// Pairs count from those of token push.firstAct on.
float chosen(uint pair, uint what) { return choice[((push.firstAct + pair / push.used) * 2 + what) * push.used + pair % push.used]; }

#ifdef SORTED
layout(set = 0, binding = 6, std430) readonly buffer Sorted { uint sorted[]; }; // [experts + 1] where each expert's pairs begin, and pairs behind that
uint expert() { return gl_WorkGroupID.z; }
uint count() { return sorted[expert() + 1] - sorted[expert()]; }
uint pairAt(uint t) { return sorted[push.experts + 1 + sorted[expert()] + t]; }
#else
uint expert() { return uint(chosen(gl_WorkGroupID.z, 0)) - push.fromExpert; }
uint count() { return expert() < push.experts ? 1 : 0; }
uint pairAt(uint t) { return gl_WorkGroupID.z; }
#endif

uint biasAt(uint r) { return expert() * push.perExpert + push.fromRow + r; } // in the whole matrix
bool here(uint r) { return biasAt(r) - push.firstRow < push.partRows; }     // other rows are another part's
uint weightRow(uint r) { return here(r) ? biasAt(r) - push.firstRow : 0; }
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
uint weightRow(uint r) { return r; }
uint actRow(uint t) { return push.firstAct + t; }
uint outAt(uint t, uint r) { return (push.firstOut + t) * push.stride + push.firstRow + r; }
#endif

#endif
