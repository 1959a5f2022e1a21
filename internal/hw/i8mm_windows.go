package hw

// i8mmPresent is PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE of winnt.h.
const i8mmPresent = 66

// systemHasI8MM asks Windows, where x/sys/cpu does not say. Systems that do not know the number, and other processors, have none.
func systemHasI8MM() bool {
	present, _, _ := isProcessorFeaturePresent.Call(i8mmPresent)
	return present != 0
}
