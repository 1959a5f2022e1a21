package hw

// DefaultThreads returns how many workers compute: the usable physical cores that are idle, at least half of the usable
// ones. Hyperthreads share the vector units, so a second worker on a core gains nothing.
func DefaultThreads() int {
	threads, _ := IdleCores()
	return threads
}

// IdleCores returns DefaultThreads and the usable physical cores, which are more where other programs are busy.
func IdleCores() (threads, usable int) {
	c := Detect()
	return idleCores(c.PhysicalCores, c.Usable, busyTasks()), c.Usable
}

// BusyTasks returns how many tasks of other programs were running in the last minute and still are; 0 where the system
// does not tell.
func BusyTasks() int { return busyTasks() }

// idleCores takes busy tasks, one a core, off the machine's physical cores. Half of the usable cores is the least,
// because the scheduler shares the rest fairly and the business may be about to end.
func idleCores(physical, usable, busy int) int {
	idle := min(usable, physical-busy)
	return max(idle, usable/2, 1)
}
