//go:build linux

package faults

import "golang.org/x/sys/unix"

// older are calls that newer architectures do not have.
func older() map[int]kind {
	return map[int]kind{
		unix.SYS_RENAME: {name: "rename", path: 1, dir: -1},
		unix.SYS_LINK:   {name: "link", path: 1, dir: -1},
		unix.SYS_MKDIR:  {name: "mkdir", path: 0, dir: -1},
	}
}
