package hw

// Memory is in bytes, already bounded by the process's cgroup.
type Memory struct {
	Total     uint64
	Available uint64 // usable without swapping, reclaimable cache included; 0 if unknown
}
