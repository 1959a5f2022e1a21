//go:build !windows

package main

// readerLeft has nothing to say: a signal ends a process that writes to a pipe nobody reads.
func readerLeft(error) bool { return false }
