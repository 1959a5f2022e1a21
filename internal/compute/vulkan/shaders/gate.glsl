// loadGate loads a unit of a third matrix, in the binding GATES.

#undef WEIGHTS
#define WEIGHTS GATES
#define WeightQuads GateQuads
#define WeightPairs GatePairs
#define WeightWords GateWords
#define weightQuads gateQuads
#define weightPairs gatePairs
#define weightWords gateWords
#define rawScale gateRawScale
#define scaleOf gateScaleOf
#define quantsOf gateQuantsOf
#define unitQuants gateUnitQuants
#define floatsOf gateFloatsOf
#define loadUnit loadGate
#include "loads.glsl"
#include "unit.glsl"
#undef WeightQuads
#undef WeightPairs
#undef WeightWords
#undef weightQuads
#undef weightPairs
#undef weightWords
#undef rawScale
#undef scaleOf
#undef quantsOf
#undef unitQuants
#undef floatsOf
#undef loadUnit
