//go:build unix

package memlock

import "golang.org/x/sys/unix"

const remedy = "raise the limit (ulimit -l)"

func lock(b []byte) error { return unix.Mlock(b) }
