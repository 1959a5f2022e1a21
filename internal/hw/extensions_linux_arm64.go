package hw

import "golang.org/x/sys/unix"

// From Linux's asm/hwcap.h and linux/auxvec.h.
const (
	hwcap2     = 26      // AT_HWCAP2
	hwcap2BF16 = 1 << 14 // HWCAP2_BF16
)

// systemExtensions reports what x/sys/cpu does not.
func systemExtensions() (i8mm, bf16 bool) {
	values, err := unix.Auxv()
	if err != nil {
		return false, false
	}
	for _, v := range values {
		if v[0] == hwcap2 {
			return false, v[1]&hwcap2BF16 != 0
		}
	}
	return false, false
}
