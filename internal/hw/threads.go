package hw

// DefaultThreads returns how many threads compute: one for each usable physical core. Hyperthreads share the vector
// units, so a second thread on a core gains nothing. Other programs' load does not lower the number: while it computes,
// the thread pool measures whether fewer threads are faster.
func DefaultThreads() int { return Detect().Usable }

// BusyTasks returns how many tasks of other programs were running in the last minute and still are; 0 where the system
// does not tell.
func BusyTasks() int { return busyTasks() }
