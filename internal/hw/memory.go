package hw

// Memory is in bytes, already bounded by the process's cgroup.
type Memory struct {
	Total     uint64
	Available uint64 // can be used without swapping, reclaimable cache included; 0 where unknown
}
