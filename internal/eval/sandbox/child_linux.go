//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// childMark is the first argument of the process that confines itself and becomes Python.
const childMark = "__sandboxed"

// confined says how the process is confined.
type confined struct {
	Python  pythonPaths
	Scratch string
	Script  string
	Limits  Limits
	Files   uint // descriptors that stay open
}

// Child must be called first in main of a program that uses a Runner. In a process that a Runner started it does not
// return.
func Child() {
	if len(os.Args) != 3 || os.Args[1] != childMark {
		return
	}
	runtime.LockOSThread() // rights belong to a thread until it becomes Python
	var c confined
	err := json.Unmarshal([]byte(os.Args[2]), &c)
	if err == nil {
		err = c.become()
	}
	fmt.Fprintln(os.Stderr, childMark+":", err)
	os.Exit(1)
}

// become confines the process and replaces it by Python.
func (c *confined) become() error {
	if err := unix.CloseRange(c.Files, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil { // what others left open
		return fmt.Errorf("close_range: %w", err)
	}
	for capability := range uintptr(64) {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) // of root; other users have none to drop
	}
	unix.Umask(0o077) // and it cannot set another: see policy
	if err := os.Chdir(c.Scratch); err != nil {
		return err
	}
	if err := c.landlock(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	filter := seccomp.Filter{NoNewPrivs: true, Policy: policy()}
	argv := []string{c.Python.Executable, "-I", "-B", "-X", "utf8", "-c", fmt.Sprintf(memoryScript, c.Limits.Memory) + c.Script}
	env := []string{"HOME=" + c.Scratch, "TMPDIR=" + c.Scratch, "PATH=/nonexistent", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"}
	if err := c.limit(); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	if err := seccomp.LoadFilter(filter); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", c.Python.Executable, syscall.Exec(c.Python.Executable, argv, env))
}

// Kinds of access that Landlock grants, and those known to its versions.
const (
	landlockReads  = ll.AccessFSReadFile
	landlockLists  = landlockReads | ll.AccessFSReadDir
	landlockRuns   = landlockReads | ll.AccessFSExecute
	landlockWrites = landlockLists | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile
	landlockFiles  = 1<<15 - 1 // all kinds of access to files, in version 3
	landlockDevice = 1 << 15   // requests to devices, from version 5 on
	landlockTCP    = 3         // binding and connecting, from version 4 on
	landlockScoped = 3         // abstract sockets and signals, from version 6 on
)

// landlock lets the thread, and the Python that replaces it, read Python's files and write into its folder. The
// library's own way, for all threads, asks /proc for them, which has other numbers in a namespace.
func (c *confined) landlock() error {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return err
	}
	rules := ll.RulesetAttr{HandledAccessFS: landlockFiles}
	if version >= 4 {
		rules.HandledAccessNet = landlockTCP
	}
	if version >= 5 {
		rules.HandledAccessFS |= landlockDevice
	}
	if version >= 6 {
		rules.Scoped = landlockScoped
	}
	fd, err := ll.LandlockCreateRuleset(&rules, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, r := range []struct {
		allowed uint64
		paths   []string
	}{
		{landlockLists, c.Python.Folders},
		{landlockReads, c.Python.Files},
		{landlockReads, []string{"/dev/urandom", "/etc/ld.so.cache"}},
		{landlockRuns, append(loaders(), c.Python.Executable)},
		{landlockReads | ll.AccessFSWriteFile, []string{"/dev/null"}},
		{landlockWrites, []string{c.Scratch}},
	} {
		for _, path := range r.paths {
			if err := allow(fd, path, r.allowed); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return ll.LandlockRestrictSelf(fd, 0)
}

// allow adds a rule for path, if it exists.
func allow(rules int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ll.LandlockAddPathBeneathRule(rules, &ll.PathBeneathAttr{AllowedAccess: access, ParentFd: fd}, 0)
}

// loaders returns the paths of the programs that load shared libraries, in glibc and musl.
func loaders() []string {
	if runtime.GOARCH == "arm64" {
		return []string{"/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"}
	}
	return []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"}
}

// memoryScript limits memory, in Python, because Go reserves more than that. Later code cannot raise the limit again.
const memoryScript = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (%[1]d, %[1]d))\n"

// limit sets the limits of resources but memory.
func (c *confined) limit() error {
	seconds := uint64(c.Limits.Time.Seconds()) + 2
	for _, l := range []struct {
		which int
		to    uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_CPU, seconds},
		{unix.RLIMIT_FSIZE, uint64(c.Limits.Disk)},
		{unix.RLIMIT_NOFILE, 64},
		{unix.RLIMIT_MEMLOCK, 0},
		{unix.RLIMIT_MSGQUEUE, 0},
		{unix.RLIMIT_STACK, 8 << 20},
	} {
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: l.to, Max: l.to}); err != nil {
			return err
		}
	}
	return nil
}

// harmless are the calls that Python needs. All others fail as not permitted: sockets, other processes, signals to
// them, and changes to the machine.
var harmless = []string{
	"read", "write", "readv", "writev", "pread64", "pwrite64", "open", "openat", "close", "stat", "fstat", "lstat", "newfstatat", "fstatat", "statx", "lseek",
	"access", "faccessat", "faccessat2", "readlink", "readlinkat", "getcwd", "chdir", "getdents", "getdents64", "statfs", "fstatfs",
	"rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "symlink", "symlinkat", "ftruncate", "fsync", "fdatasync", "flock",
	"mmap", "mprotect", "munmap", "mremap", "madvise", "brk", "pipe", "pipe2", "dup", "dup2", "dup3", "select", "pselect6", "poll", "ppoll",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "sigaltstack", "setitimer", "getitimer", "alarm", "pause",
	"nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times", "getrusage",
	"getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getresuid", "getresgid", "uname", "sysinfo", "getrandom",
	"futex", "set_tid_address", "set_robust_list", "get_robust_list", "rseq", "arch_prctl", "sched_yield", "sched_getaffinity",
	"exit", "exit_group", "restart_syscall",
	"execve", // Landlock lets only Python be executed, in this same confinement
}

// Requests of ioctl that set whether a descriptor stays open in another program.
const (
	fionclex = 0x5450
	fioclex  = 0x5451
)

// policy returns the system calls that the process may make.
func policy() seccomp.Policy {
	known := map[string]bool{}
	if info, err := arch.GetInfo(""); err == nil {
		for name := range info.SyscallNames {
			known[name] = true
		}
	}
	allowed := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, name := range harmless {
		if known[name] {
			allowed.Names = append(allowed.Names, name)
		}
	}
	only := func(name string, argument uint32, values ...uint64) {
		for _, v := range values {
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions, seccomp.NameWithConditions{
				Name: name, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.Equal, Value: v}},
			})
		}
	}
	// Not F_SETOWN and F_SETSIG, with which the kernel sends signals.
	only("fcntl", 1, unix.F_DUPFD, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_DUPFD_CLOEXEC)
	only("ioctl", 1, unix.TCGETS, unix.TIOCGWINSZ, unix.TIOCINQ, fioclex, fionclex)
	allowed.NamesWithCondtions = append(allowed.NamesWithCondtions,
		seccomp.NameWithConditions{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
		seccomp.NameWithConditions{Name: "prlimit64", Conditions: seccomp.ArgumentConditions{ // reads its own
			{Argument: 0, Operation: seccomp.Equal, Value: 0}, {Argument: 2, Operation: seccomp.Equal, Value: 0},
		}},
		seccomp.NameWithConditions{Name: "prlimit64", Conditions: seccomp.ArgumentConditions{ // lowers that on memory
			{Argument: 0, Operation: seccomp.Equal, Value: 0}, {Argument: 1, Operation: seccomp.Equal, Value: unix.RLIMIT_AS},
		}},
	)
	for name, mode := range map[string]uint32{"mkdir": 1, "mkdirat": 2} { // folders that we can look into, count and remove
		if known[name] {
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{
				{Argument: mode, Operation: seccomp.BitsSet, Value: unix.S_IRUSR},
				{Argument: mode, Operation: seccomp.BitsSet, Value: unix.S_IWUSR},
				{Argument: mode, Operation: seccomp.BitsSet, Value: unix.S_IXUSR},
			}})
		}
	}
	groups := []seccomp.SyscallGroup{allowed}
	if known["clone3"] { // its flags are in memory, invisible to a filter; libraries fall back to clone
		groups = append(groups, seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}})
	}
	return seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: groups}
}
