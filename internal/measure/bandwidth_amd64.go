package measure

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C ../../gen run ./read -out ../internal/measure/read_amd64.s -stubs ../internal/measure/read_stub_amd64.go -pkg measure

// ways returns the ways to read memory in order.
func ways() []way {
	if !cpu.X86.HasAVX2 {
		return []way{{"plain loads", sumGeneric}}
	}
	return []way{{"plain loads", sumPlain}, {"loads with prefetching", sumAhead}}
}

// sumPlain leaves prefetching to the hardware.
func sumPlain(b []byte) uint64 {
	blocks := len(b) / readBlock
	if blocks == 0 {
		return sumGeneric(b)
	}
	return sumAVX2(&b[0], uintptr(blocks)) + sumGeneric(b[blocks*readBlock:])
}

// sumAhead asks for memory well before it reads it.
func sumAhead(b []byte) uint64 {
	blocks := len(b) / readBlock
	if blocks == 0 {
		return sumGeneric(b)
	}
	next := uintptr(unsafe.Pointer(&b[0])) + readAhead // only asked for, never read
	return sumAheadAVX2(&b[0], next, uintptr(blocks)) + sumGeneric(b[blocks*readBlock:])
}

// sumRow adds up a row's words, and prefetches next, a row of the same length.
func sumRow(b, next []byte) uint64 {
	blocks := len(b) / readBlock
	if !cpu.X86.HasAVX2 || blocks == 0 {
		return sumGeneric(b)
	}
	return sumAheadAVX2(&b[0], uintptr(unsafe.Pointer(&next[0])), uintptr(blocks)) + sumGeneric(b[blocks*readBlock:])
}
