package measure

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C ../../gen run ./read -out ../internal/measure/read_amd64.s -stubs ../internal/measure/read_stub_amd64.go -pkg measure

func sumWords(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return sumThen(b, uintptr(unsafe.Pointer(&b[0]))+readAhead)
}

// sumRow is sumWords of a row, while next is asked for.
func sumRow(b, next []byte) uint64 { return sumThen(b, uintptr(unsafe.Pointer(&next[0]))) }

// sumThen adds up b's words; next is only asked for, never read.
func sumThen(b []byte, next uintptr) uint64 {
	blocks := len(b) / readBlock
	if !cpu.X86.HasAVX2 || blocks == 0 {
		return sumGeneric(b)
	}
	return sumAVX2(&b[0], next, uintptr(blocks)) + sumGeneric(b[blocks*readBlock:])
}
