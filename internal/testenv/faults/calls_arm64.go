//go:build linux

package faults

// older are calls that this architecture does not have.
func older() map[int]kind { return nil }
