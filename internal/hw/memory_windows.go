package hw

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
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

// processMemoryCounters is PROCESS_MEMORY_COUNTERS.
type processMemoryCounters struct {
	size, pageFaults           uint32
	peakWorkingSet, workingSet uintptr
	peakPagedPool, pagedPool   uintptr
	peakNonPaged, nonPaged     uintptr
	pageFile, peakPageFile     uintptr
}

// PeakRSS returns the most physical memory this process has had resident, in bytes; 0 where unknown.
func PeakRSS() uint64 {
	var c processMemoryCounters
	c.size = uint32(unsafe.Sizeof(c))
	ok, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)), uintptr(c.size))
	if ok == 0 {
		return 0
	}
	return uint64(c.peakWorkingSet)
}
