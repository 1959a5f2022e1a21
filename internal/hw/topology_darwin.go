package hw

import "golang.org/x/sys/unix"

// readTopology asks sysctl. On Apple silicon perflevel0 are the performance cores: workers on the efficiency cores
// would only be waited for.
func readTopology() topology {
	name, _ := unix.Sysctl("machdep.cpu.brand_string")
	t := topology{
		name: name, physical: sysctlInt("hw.physicalcpu"), logical: sysctlInt("hw.logicalcpu"),
		usable: first(sysctlInt("hw.perflevel0.physicalcpu"), sysctlInt("hw.physicalcpu")),
		l1d:    first(sysctlInt("hw.perflevel0.l1dcachesize"), sysctlInt("hw.l1dcachesize")),
		l2:     first(sysctlInt("hw.perflevel0.l2cachesize"), sysctlInt("hw.l2cachesize")),
		l3:     sysctlInt("hw.l3cachesize"),
	}
	return t
}

// sysctlInt reads an integer of 4 or 8 bytes; 0 if there is none.
func sysctlInt(name string) int {
	if v, err := unix.SysctlUint32(name); err == nil {
		return int(v)
	}
	v, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return int(v)
}

// sysctl does not report busy tasks without a Mach call: nothing is clearly busy.
func busyTasks() int { return 0 }
