package hw

import (
	"errors"
	"io/fs"
	"os"
)

// ReadMemory reads /proc/meminfo and the limits of the process's control groups, version 1 or 2.
func ReadMemory() (Memory, error) { return readMemory(os.DirFS("/")) }

func readMemory(root fs.FS) (Memory, error) {
	info := fields(root, "proc/meminfo") // KiB
	if info["MemTotal"] == 0 {
		return Memory{}, errors.New("hw: /proc/meminfo does not tell MemTotal; is /proc mounted?")
	}
	m := Memory{Total: info["MemTotal"] << 10, Available: info["MemAvailable"] << 10}
	if _, ok := info["MemAvailable"]; !ok { // kernels before 3.14
		m.Available = (info["MemFree"] + info["Buffers"] + info["Cached"]) << 10
	}
	return cgroups{root}.memory(m), nil
}
