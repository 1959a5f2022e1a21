package measure

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C ../../gen run ./read -out ../internal/measure/read_amd64.s -stubs ../internal/measure/read_stub_amd64.go -pkg measure

func sumWords(b []byte) uint64 {
	blocks := len(b) / readBlock
	if !cpu.X86.HasAVX2 || blocks == 0 {
		return sumGeneric(b)
	}
	next := uintptr(unsafe.Pointer(&b[0])) + readAhead // only asked for, never read
	return sumAVX2(&b[0], next, uintptr(blocks)) + sumGeneric(b[blocks*readBlock:])
}

// sumRow is sumWords of a row, while next, as long a row, is asked for.
func sumRow(b, next []byte) uint64 {
	blocks := len(b) / readBlock
	if !cpu.X86.HasAVX2 || blocks == 0 {
		return sumGeneric(b)
	}
	return sumRowAVX2(&b[0], uintptr(unsafe.Pointer(&next[0])), uintptr(blocks)) + sumGeneric(b[blocks*readBlock:])
}
