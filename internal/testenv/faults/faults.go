//go:build linux && (amd64 || arm64)

// Package faults makes a program's changes of files fail, one at a time, for tests of the files that remain. The kernel
// asks a supervisor, by seccomp's notifications, before each system call that changes files; the supervisor lets it
// happen or answers in the kernel's place. It does not see changes by mapped memory.
package faults

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Fault says what happens at one of the calls.
type Fault struct {
	Kind   string     // of the call; empty: none fails
	Nth    int        // of the calls of that kind, from 0 on
	Errno  unix.Errno // with what it fails
	Sticky bool       // all later calls that need room fail, too, as on a full disk
	Short  bool       // it writes half; see Call.Shortens
	Kill   bool       // the process is killed in its place, or after half of it if Short is set and the call can write half
}

// variable parts of names differ from run to run or tell files of one kind apart: numbers, and random text.
var variable = regexp.MustCompile(`[A-Z2-7]{26}|[0-9]+`)

// Call is a system call that changed a file, or was to.
type Call struct {
	Name string
	Path string // of the file, or of its new name
}

// Kind returns what the call does to files of what kind. It is the same in every run, and many calls may share it.
func (c Call) Kind() string {
	return c.Name + " of " + variable.ReplaceAllString(filepath.Base(c.Path), "")
}

// Shortens reports whether the call can write half.
func (c Call) Shortens() bool { return c.Name == "write" || c.Name == "pwrite64" }

// Needs reports whether the call needs room on the disk.
func (c Call) Needs() bool {
	return c.Writes() || strings.HasPrefix(c.Name, "open") || strings.HasPrefix(c.Name, "mkdir") || strings.HasPrefix(c.Name, "link") || c.Name == "fallocate"
}

// Writes reports whether the call writes bytes.
func (c Call) Writes() bool {
	return strings.Contains(c.Name, "write") || c.Name == "copy_file_range" || c.Name == "sendfile"
}

// Run runs a program that calls Become with its arguments, and makes a call fail that concerns a file in folder. It
// returns the calls in order, and the index of the one that failed; -1: none did.
func Run(cmd *exec.Cmd, folder string, f Fault) (calls []Call, at int, err error) {
	folder, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, -1, err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "supervisor"), os.NewFile(uintptr(ends[1]), "supervised")
	defer ours.Close()
	cmd.ExtraFiles = []*os.File{theirs} // descriptor 3
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, -1, err
	}
	listener, err := receive(ours)
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, -1, errors.Join(err, cmd.Wait())
	}
	s := &supervisor{listener: listener, kinds: supervised(), process: cmd.Process, folder: folder + "/", fault: f, nth: f.Nth, at: -1}
	failed := s.serve()
	unix.Close(listener)
	if failed != nil {
		_ = cmd.Process.Kill()
	}
	err = cmd.Wait()
	if failed != nil {
		err = failed
	}
	return s.calls, s.at, err
}

// receive takes the descriptor by which the kernel asks.
func receive(from *os.File) (int, error) {
	c, err := net.FileConn(from)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	text, oob := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := c.(*net.UnixConn).ReadMsgUnix(text, oob)
	if err != nil {
		return 0, err
	}
	list, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil || len(list) != 1 {
		return 0, fmt.Errorf("the program is not supervised: %s", text[:n])
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

// supervisor answers the kernel.
type supervisor struct {
	listener int
	process  *os.Process
	kinds    map[int]kind
	folder   string // with a slash
	fault    Fault
	nth      int // of the calls of the fault's kind that are still to come
	calls    []Call
	at       int // number of the call that failed; -1: none yet
}

// serve answers until the program ends.
func (s *supervisor) serve() error {
	for {
		list := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(list, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		if list[0].Revents&unix.POLLIN == 0 {
			return nil
		}
		n, err := recv(s.listener)
		if err == unix.ENOENT || err == unix.EINTR { // the thread is gone
			continue
		}
		if err != nil {
			return err
		}
		a, answered := s.answer(n)
		if !answered {
			continue
		}
		if err := send(s.listener, &a); err != nil && err != unix.ENOENT {
			return err
		}
	}
}

// answer decides the result of a call; ok is false if the process is killed instead.
func (s *supervisor) answer(n *notification) (r response, ok bool) {
	happens := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	c, ok := s.call(n)
	if !ok {
		return happens, true
	}
	s.calls = append(s.calls, c)
	f := &s.fault
	if s.at >= 0 {
		if f.Sticky && c.Needs() {
			return response{id: n.id, err: -int32(f.Errno)}, true
		}
		return happens, true
	}
	if c.Kind() != f.Kind {
		return happens, true
	}
	if s.nth--; s.nth >= 0 {
		return happens, true
	}
	at := len(s.calls) - 1
	switch {
	case f.Kill:
		if f.Short && c.Shortens() {
			_, _ = s.half(n)
		}
		s.at = at
		_ = s.process.Kill()
		return response{}, false
	case f.Short:
		written, err := s.half(n)
		if err != nil {
			return happens, true
		}
		s.at = at
		return response{id: n.id, val: int64(written)}, true
	}
	s.at = at
	return response{id: n.id, err: -int32(f.Errno)}, true
}

// call returns the call of n; ok is false if it concerns no file of the folder.
func (s *supervisor) call(n *notification) (c Call, ok bool) {
	k, ok := s.kinds[int(n.nr)]
	if !ok {
		k = kind{name: "openat", path: 1, dir: 0}
	}
	c.Name = k.name
	if k.path >= 0 {
		c.Path, ok = s.path(n, k)
		return c, ok && strings.HasPrefix(c.Path+"/", s.folder)
	}
	proc, fd := fmt.Sprintf("/proc/%d/", s.process.Pid), strconv.Itoa(int(int32(n.args[k.fd])))
	c.Path, _ = os.Readlink(proc + "fd/" + fd)
	if !strings.HasPrefix(c.Path, s.folder) {
		return c, false
	}
	if info, err := os.Stat(proc + "fd/" + fd); err != nil || !info.Mode().IsRegular() {
		return c, false
	}
	if c.Name == "close" { // of files that are only read it does not matter
		text, err := os.ReadFile(proc + "fdinfo/" + fd)
		_, flags, found := strings.Cut(string(text), "flags:\t")
		flags, _, _ = strings.Cut(flags, "\n")
		mode, parsed := strconv.ParseUint(flags, 8, 64)
		return c, err == nil && found && parsed == nil && mode&unix.O_ACCMODE != unix.O_RDONLY
	}
	return c, true
}

// path reads a path from the program's memory.
func (s *supervisor) path(n *notification, k kind) (string, bool) {
	text := make([]byte, 4096)
	at := uintptr(n.args[k.path])
	size := min(len(text), 4096-int(at%4096)) // the next page may not be there
	read, err := unix.ProcessVMReadv(s.process.Pid, []unix.Iovec{{Base: &text[0], Len: uint64(size)}}, []unix.RemoteIovec{{Base: at, Len: size}}, 0)
	if err != nil {
		return "", false
	}
	name, _, whole := bytes.Cut(text[:read], []byte{0})
	if !whole { // it continues in the next page
		more, err := unix.ProcessVMReadv(s.process.Pid, []unix.Iovec{{Base: &text[read], Len: uint64(len(text) - read)}}, []unix.RemoteIovec{{Base: at + uintptr(read), Len: len(text) - read}}, 0)
		if err != nil {
			return "", false
		}
		name, _, _ = bytes.Cut(text[:read+more], []byte{0})
	}
	path := string(name)
	if !filepath.IsAbs(path) {
		from := "cwd"
		if k.dir >= 0 && int32(n.args[k.dir]) != unix.AT_FDCWD {
			from = fmt.Sprintf("fd/%d", int32(n.args[k.dir]))
		}
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", s.process.Pid, from))
		if err != nil {
			return "", false
		}
		path = filepath.Join(dir, path)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, true
}

// half does half of a write in the program's place, to its own open file.
func (s *supervisor) half(n *notification) (int, error) {
	length := int(n.args[2]) / 2
	if length == 0 {
		return 0, errors.ErrUnsupported
	}
	data := make([]byte, length)
	length, err := unix.ProcessVMReadv(s.process.Pid, []unix.Iovec{{Base: &data[0], Len: uint64(length)}}, []unix.RemoteIovec{{Base: uintptr(n.args[1]), Len: length}}, 0)
	if err != nil {
		return 0, err
	}
	process, err := unix.PidfdOpen(s.process.Pid, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, int(n.args[0]), 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if int(n.nr) == unix.SYS_PWRITE64 {
		return unix.Pwrite(fd, data[:length], int64(n.args[3]))
	}
	return unix.Write(fd, data[:length])
}
