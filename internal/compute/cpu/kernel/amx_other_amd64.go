//go:build !linux

package kernel

// allowTiles reports that AMX is left alone: only Linux's way of asking for it was tried.
func allowTiles() bool { return false }
