package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { scriptPrograms["mortal"] = mortal }

// mortal runs powerinfer with a limit on the size of its files: mortal BYTES ARGS... The kernel kills the process,
// without warning, when a write exceeds the limit. Earlier bytes are written.
func mortal() {
	limit, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // the signal's default is to leave a core
	}
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit})
	}
	if err == nil {
		var byDefault [64]byte // struct sigaction: SIG_DFL, no flags, an empty mask; os/signal cannot undo what Go's runtime does with the signal
		const maskBytes = 8
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGXFSZ), uintptr(unsafe.Pointer(&byDefault)), 0, maskBytes, 0, 0); errno != 0 {
			err = errno
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(statusError)
	}
	os.Args = append([]string{"powerinfer"}, os.Args[2:]...)
	main()
}
