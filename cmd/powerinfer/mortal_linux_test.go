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

// mortal is powerinfer, but the kernel ends it, so that it cannot end in order, where a file that it writes would grow
// beyond a number of bytes; what fits is written: mortal BYTES ARGS...
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
