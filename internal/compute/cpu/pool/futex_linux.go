package pool

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const haveFutex = true

// Operations of futex(2), on memory of this process only.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

// futexWait sleeps while *word is old. It may return early.
func futexWait(word *atomic.Uint32, old uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, uintptr(old), 0, 0, 0)
}

// futexWake wakes up to n sleepers. It does not block, so Go's scheduler need not know.
func futexWake(word *atomic.Uint32, n int) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate, uintptr(n), 0, 0, 0)
}
