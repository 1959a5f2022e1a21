package hw

// Numbers of winnt.h.
const (
	i8mmPresent = 66 // PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
	bf16Present = 68 // PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE
)

// systemExtensions asks Windows for features that x/sys/cpu does not report. Systems that do not know a number, and
// other CPUs, have none.
func systemExtensions() (i8mm, bf16 bool) {
	has := func(number uintptr) bool {
		present, _, _ := isProcessorFeaturePresent.Call(number)
		return present != 0
	}
	return has(i8mmPresent), has(bf16Present)
}
