package hw

// OpenFiles returns 0: Windows does not limit the files that a process has open.
func OpenFiles() int { return 0 }
