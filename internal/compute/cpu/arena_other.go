//go:build !linux

package cpu

// adviseHuge does nothing: only Linux takes such advice.
func adviseHuge([]byte) {}
