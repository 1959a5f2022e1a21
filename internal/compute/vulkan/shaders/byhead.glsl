// Where a product's operands lie: of a matrix, or, with BY_HEAD defined, of the head that the workgroup's z is. Then push.rows are a head's.

#ifdef BY_HEAD
uint weightRow(uint r) { return gl_WorkGroupID.z * push.rows + r; }
uint actRow(uint t) { return (push.firstAct + t) * push.heads + gl_WorkGroupID.z; }
uint outAt(uint t, uint r) { return (push.firstOut + t) * push.stride + push.firstOfHeads + gl_WorkGroupID.z * push.headStep + r; }
#else
uint weightRow(uint r) { return r; }
uint actRow(uint t) { return push.firstAct + t; }
uint outAt(uint t, uint r) { return (push.firstOut + t) * push.stride + push.firstRow + r; }
#endif
