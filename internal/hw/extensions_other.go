//go:build !windows && !darwin && !(linux && arm64)

package hw

// systemExtensions reports what x/sys/cpu does not: nothing here.
func systemExtensions() (i8mm, bf16 bool) { return false, false }
