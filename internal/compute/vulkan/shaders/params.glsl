// A step's compute.Params as params.go lays them out. An includer defines PARAMS, their binding, and has ROWS and OUT, the rows and the
// logits that the recording has room for, as expressions.

layout(set = 0, binding = PARAMS, std430) readonly buffer Params { uint params[]; };

uint tokens() { return params[0]; }

// padding reports whether a row of the recording is none of the step's, which begin at params[3].
bool padding(uint row) { return row - params[3] >= tokens(); }
float threshold() { return uintBitsToFloat(params[2]); }
uint token(uint i) { return params[4 + i]; }
uint position(uint i) { return params[4 + ROWS + i]; }
uint sequence(uint i) { return params[4 + 2 * ROWS + i]; }
uint last(uint i) { return params[4 + 3 * ROWS + i]; } // position in the step of the row's sequence
uint boundsFirst(uint i) { return params[4 + 4 * ROWS + i]; } // of the positions that a row sees in layers with bounds
uint boundsLast(uint i) { return params[4 + 5 * ROWS + i]; }
uint outRow(uint i) { return params[4 + 6 * ROWS + i]; }

// page is page number j of a sequence, in layers with windows if near is 1, else it is 0.
uint page(uint seq, uint j, uint near) { return params[params[4 + 6 * ROWS + OUT + seq] + 2 * j + near]; }
