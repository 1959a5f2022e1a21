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
