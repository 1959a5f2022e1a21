// loadUp loads a unit of a second matrix, in the binding UPS.

#undef WEIGHTS
#define WEIGHTS UPS
#define WeightQuads UpQuads
#define WeightPairs UpPairs
#define WeightWords UpWords
#define weightQuads upQuads
#define weightPairs upPairs
#define weightWords upWords
#define rawScale upRawScale
#define scaleOf upScaleOf
#define quantsOf upQuantsOf
#define unitQuants upUnitQuants
#define floatsOf upFloatsOf
#define loadUnit loadUp
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
