package hw

import (
	"fmt"
	"unsafe"
)

// memoryStatusEx is MEMORYSTATUSEX.
type memoryStatusEx struct {
	length, load                                       uint32
	totalPhys, availPhys, totalPageFile, availPageFile uint64
	totalVirtual, availVirtual, availExtendedVirtual   uint64
}

// ReadMemory asks GlobalMemoryStatusEx for physical memory.
func ReadMemory() (Memory, error) {
	var s memoryStatusEx
	s.length = uint32(unsafe.Sizeof(s))
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return Memory{}, fmt.Errorf("hw: GlobalMemoryStatusEx: %w", err)
	}
	return Memory{Total: s.totalPhys, Available: s.availPhys}, nil
}
