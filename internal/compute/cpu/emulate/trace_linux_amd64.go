package emulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rerun runs this program again, with these arguments and env added to its environment. It returns what the program
// prints, and its exit status. folder is for a temporary file.
func Rerun(folder, env string, args ...string) (printed string, status int, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", 0, err
	}
	out, err := os.CreateTemp(folder, "")
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = out.Close() }()
	if status, err = run(append([]string{program}, args...), append(os.Environ(), env), out); err != nil {
		return "", 0, err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	text, err := io.ReadAll(io.LimitReader(out, 16<<20))
	return string(text), status, err
}

// run runs the program argv with the environment env, writes what it prints to out and returns its exit status. No
// other thread may have business with it.
func run(argv, env []string, out *os.File) (int, error) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Env: env, Files: []*os.File{nil, out, out},
		Sys: &unix.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s under the tracer: %w", argv[0], err)
	}
	defer func() { _ = p.Release() }()
	t := tracer{leader: p.Pid, tiles: map[int]*tiles{}}
	status, err := t.follow()
	if err != nil {
		_ = p.Kill()
		return 0, err
	}
	return status, nil
}

type tracer struct {
	leader  int
	tiles   map[int]*tiles // by thread
	vectors vectors        // of the thread that is stopped
}

// traceOptions has threads traced from their beginning, and none outlive the tracer.
const traceOptions = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL

// follow lets the program run, stop by stop, until it ends.
func (t *tracer) follow() (int, error) {
	started := false
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-t.leader, &s, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wait for the traced program: %w", err)
		}
		switch {
		case (s.Exited() || s.Signaled()) && pid == t.leader:
			if s.Signaled() {
				return 0, fmt.Errorf("the traced program was ended by the signal %v", s.Signal())
			}
			return s.ExitStatus(), nil
		case !s.Stopped():
			delete(t.tiles, pid)
			continue
		}
		if !started {
			started = true
			if err := unix.PtraceSetOptions(pid, traceOptions); err != nil {
				return 0, fmt.Errorf("set the tracer's options: %w", err)
			}
		}
		signal, err := t.stopped(pid, s.StopSignal())
		if err != nil {
			return 0, err
		}
		if err := unix.PtraceCont(pid, int(signal)); err != nil && err != unix.ESRCH {
			return 0, fmt.Errorf("let thread %d go on: %w", pid, err)
		}
	}
}

// stopped handles the stop of a thread and returns the signal that it gets.
func (t *tracer) stopped(pid int, signal unix.Signal) (unix.Signal, error) {
	if t.tiles[pid] == nil {
		t.tiles[pid] = &tiles{}
		if signal == unix.SIGSTOP {
			return 0, nil // a new thread's first stop
		}
	}
	switch signal {
	case unix.SIGTRAP: // its start, or that of a thread
		return 0, nil
	case unix.SIGILL:
		return t.illegal(pid)
	}
	return signal, nil
}

// illegal computes the instructions at which a thread stopped, as many as follow each other.
func (t *tracer) illegal(pid int) (unix.Signal, error) {
	c := cpu{pid: pid, tiles: t.tiles[pid], vectors: &t.vectors}
	if err := unix.PtraceGetRegs(pid, &c.regs); err != nil {
		return 0, fmt.Errorf("read the registers of thread %d: %w", pid, err)
	}
	begin := c.regs.Rip
	err := c.step()
	for err == nil {
		err = c.step()
	}
	if c.regs.Rip == begin || !errors.Is(err, errUnknown) {
		fmt.Fprintf(os.Stderr, "emulate: at %#x: %v\n", c.regs.Rip, err)
		return unix.SIGILL, nil
	}
	if err := c.leave(); err != nil {
		return 0, err
	}
	return 0, unix.PtraceSetRegs(pid, &c.regs)
}

// cpu is a stopped thread.
type cpu struct {
	pid     int
	regs    unix.PtraceRegs
	tiles   *tiles
	vectors *vectors
	used    bool // vectors has been read
}

// general returns general register i.
func (c *cpu) general(i int) uint64 {
	r := &c.regs
	return [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}[i]
}

func (c *cpu) read(b []byte, at uint64) error {
	local := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	n, err := unix.ProcessVMReadv(c.pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err == nil && n != len(b) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("read %d bytes at %#x: %w", len(b), at, err)
	}
	return nil
}

func (c *cpu) write(b []byte, at uint64) error {
	local := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	n, err := unix.ProcessVMWritev(c.pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err == nil && n != len(b) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("write %d bytes at %#x: %w", len(b), at, err)
	}
	return nil
}

// Offsets in the state that XSAVE writes, which the kernel hands out in the form that is not compacted.
const (
	stateFeatures = 512
	stateXMM      = 160
	stateYMM      = 576 // the upper halves
	stateBytes    = 16 << 10
)

// vectors is a thread's vector registers.
type vectors struct {
	buf [stateBytes]byte
	n   uint64
}

const regsetXState = 0x202

// enter reads the vector registers, once for all instructions of a stop.
func (c *cpu) enter() error {
	if c.used {
		return nil
	}
	c.used = true
	iov := unix.Iovec{Base: &c.vectors.buf[0], Len: stateBytes}
	if err := regset(unix.PTRACE_GETREGSET, c.pid, &iov); err != nil {
		return fmt.Errorf("read the vector registers: %w", err)
	}
	c.vectors.n = iov.Len
	return nil
}

// leave writes them back.
func (c *cpu) leave() error {
	if !c.used {
		return nil
	}
	c.vectors.buf[stateFeatures] |= 1<<1 | 1<<2 // SSE and AVX are in use
	iov := unix.Iovec{Base: &c.vectors.buf[0], Len: c.vectors.n}
	if err := regset(unix.PTRACE_SETREGSET, c.pid, &iov); err != nil {
		return fmt.Errorf("write the vector registers: %w", err)
	}
	return nil
}

func regset(request, pid int, iov *unix.Iovec) error {
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), regsetXState, uintptr(unsafe.Pointer(iov)), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// ymm returns register i.
func (v *vectors) ymm(i int) (out [32]byte) {
	copy(out[:16], v.buf[stateXMM+16*i:])
	copy(out[16:], v.buf[stateYMM+16*i:][:16])
	return out
}

func (v *vectors) setYMM(i int, b *[32]byte) {
	copy(v.buf[stateXMM+16*i:], b[:16])
	copy(v.buf[stateYMM+16*i:], b[16:])
}
