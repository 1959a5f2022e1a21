// dot4 is the dot product of four signed bytes with four others.
#ifdef NO_DOT // for devices without VK_KHR_shader_integer_dot_product

int dot4(int a, int b) {
	int sum = 0;
	[[unroll]] for (int i = 0; i < 32; i += 8)
		sum += bitfieldExtract(a, i, 8) * bitfieldExtract(b, i, 8);
	return sum;
}

#else

#extension GL_EXT_spirv_intrinsics : require

// Capabilities DotProduct and DotProductInput4x8BitPacked, instruction OpSDot, its operands in PackedVectorFormat4x8Bit: 0.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packedDot(int a, int b, spirv_literal int format);

int dot4(int a, int b) { return packedDot(a, b, 0); }

#endif
