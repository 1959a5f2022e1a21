//go:build linux && (amd64 || arm64)

package faults

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kind says where a system call has what it is about.
type kind struct {
	name string
	fd   int // the argument with the file's descriptor, if there is no path
	path int // the argument that is the path, or the new one; -1: there is none
	dir  int // the argument that is the folder of a path that is not absolute; -1: the current one
}

// Become makes the process, which Run started, the program at path, supervised. It returns only an error.
func Become(path string, argv, env []string) error {
	runtime.LockOSThread()
	listener, err := load()
	if err == nil {
		err = unix.Sendmsg(3, []byte("supervised"), unix.UnixRights(listener), nil, 0)
	}
	if err != nil {
		err = fmt.Errorf("seccomp: %w", err)
		_ = unix.Sendmsg(3, []byte(err.Error()), nil, nil, 0)
		return err
	}
	unix.CloseOnExec(3)
	return syscall.Exec(path, argv, env)
}

// load gives the thread a filter by which the kernel asks about supervised calls, and returns the descriptor for these
// questions.
func load() (int, error) {
	const (
		number    = 0 // of the call, in the data that a filter sees
		arguments = 16
	)
	var p []unix.SockFilter
	add := func(code uint16, k uint32, yes, no uint8) {
		p = append(p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
	}
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, number, 0, 0)
	for nr := range supervised() {
		add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(nr), 0, 1)
		add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
	}
	add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SYS_OPENAT, 0, 3) // only if it makes a file
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, arguments+2*8, 0, 0)
	add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, 0, 1)
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	program := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	const killable = 1 << 5 // no other signal interrupts a call that is being decided on, which would ask again
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|killable, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, os.NewSyscallError("listener", errno)
	}
	return int(fd), nil
}

// notification is the kernel's struct seccomp_notif.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is the kernel's struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

func recv(fd int) (*notification, error) {
	n := &notification{}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	if errno != 0 {
		return nil, errno
	}
	return n, nil
}

func send(fd int, r *response) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(r)))
	if errno != 0 {
		return errno
	}
	return nil
}
