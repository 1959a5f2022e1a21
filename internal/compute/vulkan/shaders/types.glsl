// Code generated from package quant by compile. DO NOT EDIT.

layout(constant_id = 2) const uint TYPE = 0;

const uint F32 = 0;
const uint F16 = 1;
const uint BF16 = 30;
const uint Q4_0 = 2;
const uint Q4_1 = 3;
const uint Q5_0 = 6;
const uint Q5_1 = 7;
const uint Q8_0 = 8;
const uint Q2_K = 10;
const uint Q3_K = 11;
const uint Q4_K = 12;
const uint Q5_K = 13;
const uint Q6_K = 14;
const uint IQ2_XXS = 16;
const uint IQ2_XS = 17;
const uint IQ3_XXS = 18;
const uint IQ1_S = 19;
const uint IQ4_NL = 20;
const uint IQ3_S = 21;
const uint IQ2_S = 22;
const uint IQ4_XS = 23;
const uint IQ1_M = 29;
const uint TQ1_0 = 34;
const uint TQ2_0 = 35;
const uint MXFP4 = 39;
const uint NVFP4 = 40;
const uint Q1_0 = 41;
const uint Q2_0 = 42;
const uint NVFP4_SCALED = 63;

// Forms of scales: quant.Scales says what they are.
const uint NO_SCALES = 0;
const uint BLOCK_SCALE = 1;
const uint BLOCK_MIN = 2;
const uint SIX_BITS = 3;
const uint HALF_BLOCKS = 4;
const uint BYTE_BLOCKS = 5;
const uint NIBBLE_MINIMA = 6;
const uint EXPONENTS = 7;
const uint SUPER_SCALE = 8;
const uint SMALL_FLOATS = 9;

// Traits of TYPE: those of every type are one word, so that a module has one chain of choices.
const uint TRAITS = TYPE == Q4_0 ? 0x484u : TYPE == Q4_1 ? 0x10804u : TYPE == Q5_0 ? 0x505u : TYPE == Q5_1 ? 0x10805u : TYPE == Q8_0 ? 0x408u : TYPE == Q2_K ? 0x11802u : TYPE == Q3_K ? 0x1043u : TYPE == Q4_K ? 0x10c04u : TYPE == Q5_K ? 0x10c05u : TYPE == Q6_K ? 0x1206u : TYPE == IQ2_XXS ? 0x2d403u : TYPE == IQ2_XS ? 0x2d003u : TYPE == IQ3_XXS ? 0x49404u : TYPE == IQ1_S ? 0x6d403u : TYPE == IQ4_NL ? 0x80404u : TYPE == IQ3_S ? 0xa1404u : TYPE == IQ2_S ? 0x2d003u : TYPE == IQ4_XS ? 0x81404u : TYPE == IQ1_M ? 0x6d003u : TYPE == TQ1_0 ? 0x2012u : TYPE == TQ2_0 ? 0x2012u : TYPE == MXFP4 ? 0xc5c04u : TYPE == NVFP4 ? 0xc2404u : TYPE == Q1_0 ? 0x412u : TYPE == Q2_0 ? 0x412u : TYPE == NVFP4_SCALED ? 0xc2404u : 0;
const uint BITS = uint(TRAITS >> 0 & 15);
const int OFFSET = int(TRAITS >> 4 & 63);
const uint SCALES = uint(TRAITS >> 10 & 15);
const uint HALVINGS = uint(TRAITS >> 14 & 3);
const bool MINIMA = bool(TRAITS >> 16 & 1);
const uint CODEBOOK = uint(TRAITS >> 17 & 15);

// Values of a codebook's codes, four to a word.
const uint VALUES_0 = CODEBOOK == 1 ? 0x002b1908u : CODEBOOK == 2 ? 0x1c140c04u : CODEBOOK == 3 ? 0x000901f9u : CODEBOOK == 4 ? 0xbfad9881u : CODEBOOK == 5 ? 0x07050301u : CODEBOOK == 6 ? 0x03020100u : 0;
const uint VALUES_1 = CODEBOOK == 1 ? 0x00d5e7f8u : CODEBOOK == 2 ? 0x3e342c24u : CODEBOOK == 3 ? 0x0007fff7u : CODEBOOK == 4 ? 0xf6eaddcfu : CODEBOOK == 5 ? 0x0f0d0b09u : CODEBOOK == 6 ? 0x0c080604u : 0;
const uint VALUES_2 = CODEBOOK == 2 ? 0xe4ecf4fcu : CODEBOOK == 4 ? 0x26190d01u : CODEBOOK == 5 ? 0xf9fbfdffu : CODEBOOK == 6 ? 0xfdfeff00u : 0;
const uint VALUES_3 = CODEBOOK == 2 ? 0xc2ccd4dcu : CODEBOOK == 4 ? 0x71594535u : CODEBOOK == 5 ? 0xf1f3f5f7u : CODEBOOK == 6 ? 0xf4f8fafcu : 0;
