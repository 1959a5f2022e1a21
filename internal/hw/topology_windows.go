package hw

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// logicalProcessorInformation is SYSTEM_LOGICAL_PROCESSOR_INFORMATION.
type logicalProcessorInformation struct {
	mask         uintptr
	relationship uint32
	_            [2]uint64 // a union; caches come from CPUID
}

const relationProcessorCore = 0

// readTopology counts the cores of this process's processor group, at most 64 hardware threads.
func readTopology() topology {
	t := topology{name: processorName()}
	var process, system uintptr
	ok, _, _ := getProcessAffinityMask.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&process)), uintptr(unsafe.Pointer(&system)))
	if ok == 0 {
		process = ^uintptr(0)
	}
	var size uint32
	getLogicalProcessorInformation.Call(0, uintptr(unsafe.Pointer(&size)))
	const record = uint32(unsafe.Sizeof(logicalProcessorInformation{}))
	if size < record {
		return t
	}
	records := make([]logicalProcessorInformation, size/record)
	size = uint32(len(records)) * record
	ok, _, _ = getLogicalProcessorInformation.Call(uintptr(unsafe.Pointer(&records[0])), uintptr(unsafe.Pointer(&size)))
	if ok == 0 {
		return t
	}
	for _, r := range records[:min(int(size/record), len(records))] {
		if r.relationship != relationProcessorCore {
			continue
		}
		t.physical++
		t.logical += bits.OnesCount64(uint64(r.mask))
		if r.mask&process != 0 {
			t.usable++
		}
	}
	return t
}

// processorName is for CPUs without CPUID.
func processorName() string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close()
	name, _, _ := k.GetStringValue("ProcessorNameString")
	return name
}

// Windows does not report busy tasks without sampling counters over time: nothing is clearly busy.
func busyTasks() int { return 0 }
