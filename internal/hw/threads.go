package hw

// DefaultThreads returns how many threads compute: one for each usable physical core. Hyperthreads share the vector
// units, so a second thread on a core gains nothing. Other programs' load does not lower the number: while it computes,
// the thread pool measures whether fewer threads are faster.
func DefaultThreads() int { return Detect().Usable }

// IdleCores returns how many usable physical cores no task of another program keeps busy, at least half of the usable
// ones. It is an estimate, because the load of the last minute says little about the next.
func IdleCores() int {
	c := Detect()
	return idleCores(c.PhysicalCores, c.Usable, busyTasks())
}

// BusyTasks returns how many tasks of other programs were running in the last minute and still are; 0 if the system
// does not say.
func BusyTasks() int { return busyTasks() }

// idleCores subtracts busy tasks, one for each core, from the machine's physical cores. Half of the usable cores is the
// least, because the operating system shares the rest fairly and the load may be about to end.
func idleCores(physical, usable, busy int) int {
	idle := min(usable, physical-busy)
	return max(idle, usable/2, 1)
}
