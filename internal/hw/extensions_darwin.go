package hw

import "golang.org/x/sys/unix"

// systemExtensions reports features that x/sys/cpu does not. Intel's CPUs do not know the name.
func systemExtensions() (i8mm, bf16 bool) {
	has, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return false, err == nil && has != 0
}
