// Code generated from package quant by compile. DO NOT EDIT.

layout(constant_id = 2) const uint TYPE = 0;

const uint F32 = 0;
const uint F16 = 1;
const uint BF16 = 30;
const uint Q4_0 = 2;
const uint Q4_1 = 3;
const uint Q8_0 = 8;
const uint Q4_K = 12;
const uint Q5_K = 13;
const uint Q6_K = 14;

// Forms of scales: quant.Scales says what they are.
const uint NO_SCALES = 0;
const uint BLOCK_SCALE = 1;
const uint BLOCK_MIN = 2;
const uint SIX_BITS = 3;
const uint HALF_BLOCKS = 4;

// Traits of TYPE.
const uint BITS = TYPE == Q4_0 ? 4 : TYPE == Q4_1 ? 4 : TYPE == Q8_0 ? 8 : TYPE == Q4_K ? 4 : TYPE == Q5_K ? 5 : TYPE == Q6_K ? 6 : 0;
const int OFFSET = TYPE == Q4_0 ? 8 : TYPE == Q6_K ? 32 : 0;
const uint SCALES = TYPE == Q4_0 ? 1 : TYPE == Q4_1 ? 2 : TYPE == Q8_0 ? 1 : TYPE == Q4_K ? 3 : TYPE == Q5_K ? 3 : TYPE == Q6_K ? 4 : 0;
const uint MINIMA = TYPE == Q4_1 ? 1 : TYPE == Q4_K ? 1 : TYPE == Q5_K ? 1 : 0;
