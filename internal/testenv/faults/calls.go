//go:build linux && (amd64 || arm64)

package faults

import (
	"maps"

	"golang.org/x/sys/unix"
)

// supervised returns the numbers of the calls that change files. openat counts only if it makes a file.
func supervised() map[int]kind {
	calls := map[int]kind{
		unix.SYS_WRITE:           {name: "write", path: -1},
		unix.SYS_PWRITE64:        {name: "pwrite64", path: -1},
		unix.SYS_WRITEV:          {name: "writev", path: -1},
		unix.SYS_PWRITEV:         {name: "pwritev", path: -1},
		unix.SYS_COPY_FILE_RANGE: {name: "copy_file_range", fd: 2, path: -1},
		unix.SYS_SENDFILE:        {name: "sendfile", path: -1},
		unix.SYS_FSYNC:           {name: "fsync", path: -1},
		unix.SYS_FDATASYNC:       {name: "fdatasync", path: -1},
		unix.SYS_FTRUNCATE:       {name: "ftruncate", path: -1},
		unix.SYS_FALLOCATE:       {name: "fallocate", path: -1},
		unix.SYS_FCHMOD:          {name: "fchmod", path: -1},
		unix.SYS_CLOSE:           {name: "close", path: -1},
		unix.SYS_RENAMEAT:        {name: "renameat", path: 3, dir: 2},
		unix.SYS_RENAMEAT2:       {name: "renameat2", path: 3, dir: 2},
		unix.SYS_LINKAT:          {name: "linkat", path: 3, dir: 2},
		unix.SYS_MKDIRAT:         {name: "mkdirat", path: 1, dir: 0},
	}
	maps.Copy(calls, older())
	return calls
}
