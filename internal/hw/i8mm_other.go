//go:build !windows

package hw

// systemHasI8MM reports what x/sys/cpu does not: nothing here.
func systemHasI8MM() bool { return false }
