package hw

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadMemory asks sysctl: hw.memsize, and the share of it that the kernel calls free (as memory_pressure(1) prints).
func ReadMemory() (Memory, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return Memory{}, fmt.Errorf("hw: sysctl hw.memsize: %w", err)
	}
	m := Memory{Total: total}
	if percent, err := unix.SysctlUint32("kern.memorystatus_level"); err == nil && percent <= 100 {
		m.Available = total / 100 * uint64(percent)
	}
	return m, nil
}

// PeakRSS returns the most physical memory this process has had resident, in bytes; 0 where unknown.
func PeakRSS() uint64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Maxrss) // bytes here, KiB elsewhere
}
