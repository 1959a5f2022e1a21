package kernel

import "golang.org/x/sys/unix"

// Arguments of arch_prctl, with which a process requests optional processor state.
const (
	requestState = 0x1023
	tileData     = 18
)

// allowTiles requests AMX's state and reports whether the process got it.
func allowTiles() bool {
	_, _, e := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestState, tileData, 0)
	return e == 0
}
