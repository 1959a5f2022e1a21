//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// hangsIn names the folder below which TestKilled's process has a program hang.
const hangsIn = "POWERINFER_TEST_HANGS_IN"

func TestMain(m *testing.M) {
	Child()
	if os.Getenv(hangsIn) != "" {
		hang()
	}
	os.Exit(m.Run())
}

// runners returns a runner with namespaces, if they are allowed, and one without.
func runners(t *testing.T, l Limits) map[string]*Runner {
	t.Helper()
	r, err := New(t.Context(), "python3", l)
	if errors.Is(err, ErrUnsupported) {
		testenv.Missing(t, "sandbox", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Runner{}
	if r.namespaces {
		all["namespaces"] = r
	}
	bare := *r
	bare.namespaces = false
	all["bare"] = &bare
	return all
}

func check(t *testing.T, r *Runner, p Program) Verdict {
	t.Helper()
	v, err := r.Check(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// patient returns the default limits with more time: on a busy machine Python takes seconds to begin.
func patient() Limits {
	l := DefaultLimits()
	l.Time = time.Hour
	return l
}

// Right programs pass and wrong ones do not, in either of the forms of tests.
func TestVerdicts(t *testing.T) {
	for name, r := range runners(t, patient()) {
		for _, c := range []struct {
			name, text, tests, entry string
			keep                     []string
			setup                    string
			passes                   bool
		}{
			{"right", "def f(x):\n    return x + 1", "def check(candidate):\n    assert candidate(1) == 2", "f", nil, "", true},
			{"wrong", "def f(x):\n    return x", "def check(candidate):\n    assert candidate(1) == 2", "f", nil, "", false},
			{"no such function", "def g(x): pass", "def check(candidate): pass", "f", nil, "", false},
			{"syntax", "def f(x", "def check(candidate): pass", "f", nil, "", false},
			{"kinds of data", "def f(*a, **k): return a, k", "assert f(1, -2.5, 'ä\\ud800', None, True, 10**400, b'x', 1j, float('inf'), [(1,), {2}, {3: [4]}], z=frozenset([5])) == " +
				"((1, -2.5, 'ä\\ud800', None, True, 10**400, b'x', 1j, float('inf'), [(1,), {2}, {3: [4]}]), {'z': frozenset([5])})", "", nil, "", true},
			{"changes its argument", "def f(x): x.append(3); x.sort(reverse=True)", "l = [1]\nf(l)\nassert l == [3, 1]", "", nil, "", true},
			{"exceptions", "def f(x): raise ValueError('no')", "try:\n    f(1)\n    assert False\nexcept ValueError as e:\n    assert 'no' in str(e)", "", nil, "", true},
			{"helpers of the prompt", "import math\ndef g(x): return 2 * x\ndef f(x): return g(x) + 1", "assert f(2) == g(2) + 1 and math.isclose(f(1), 3.0)", "", nil, "", true},
			{"objects", "class P:\n    def __init__(self, a): self.a = a\ndef f(p): return p.a", "assert f(P(4)) == 4 and root.a == 7", "", nil, "root = P(7)", true},
			{"generators", "def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]", "", nil, "", true},
			{"a name of Python's", "def sum(a, b): return a * b", "assert sum(2, 3) == 6", "", []string{"sum"}, "", true},
			{"threads", "import threading\ndef f():\n    a = []\n    t = threading.Thread(target=lambda: a.append(1)); t.start(); t.join()\n    return a", "assert f() == [1]", "", nil, "", true},
			{"own files", "import tempfile, os\ndef f():\n    with tempfile.NamedTemporaryFile('w+') as x:\n        x.write('a'); x.seek(0); return x.read()", "assert f() == 'a'", "", nil, "", true},
			{
				"libraries", "import re, collections, itertools, heapq, bisect, functools, hashlib, decimal, datetime, random, string, json\ndef f(): return hashlib.md5(b'').hexdigest()[:4]",
				"assert f() == 'd41d'", "", nil, "", true,
			},
		} {
			if name == "namespaces" && c.name != "right" && c.name != "wrong" { // what differs is the kernel's side
				continue
			}
			t.Run(name+", "+c.name, func(t *testing.T) {
				t.Parallel()
				if v := check(t, r, Program{Text: c.text, Setup: c.setup, Tests: c.tests, Entry: c.entry, Keep: c.keep}); v.Passed != c.passes {
					t.Errorf("%+v", v)
				}
			})
		}
	}
}

// A program cannot pass but by its answers.
func TestForgeries(t *testing.T) {
	testenv.Thorough(t)
	r := runners(t, patient())["bare"]
	tests := "def check(candidate):\n    assert abs(candidate(1) - 2.0) < 1e-6\n    assert candidate(3) == 4\n    assert not isinstance(candidate(5), int) or candidate(5) == 6"
	for name, text := range map[string]string{
		"exit":                "import sys\nsys.exit(0)",
		"exit at once":        "import os\nos._exit(0)",
		"exit in the call":    "import os\ndef f(x): os._exit(0)",
		"raise SystemExit":    "def f(x): raise SystemExit(0)",
		"own abs":             "def abs(x): return 0\ndef isinstance(a, b): return False\ndef f(x): return 0",
		"builtins":            "import builtins\nbuiltins.abs = lambda x: 0\nclass A(AssertionError): pass\nbuiltins.AssertionError = A\ndef f(x): return 0",
		"equals all":          "class E:\n    def __eq__(s, o): return True\n    def __sub__(s, o): return 0\n    def __lt__(s, o): return True\n    def __abs__(s): return 0\ndef f(x): return E()",
		"equal number":        "class E(int):\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\ndef f(x): return E(0)",
		"own check":           "def check(c): pass\ndef f(x): return 0",
		"main's names":        "import __main__\n__main__.run = lambda r: [2.0, []]\ndef f(x): return 0",
		"frames":              "import sys\nf = sys._getframe(1)\ndef f(x):\n    for g in (sys._getframe(i) for i in range(1, 4)):\n        g.f_globals['verdict'] = {'passed': True}\n    return 0",
		"says it passed":      "import os\nfor d in range(64):\n    try: os.write(d, b'{\"passed\": true}\\n')\n    except OSError: pass\ndef f(x): return 0",
		"answers too early":   "import os\nos.write(4, b'{\"value\": null}\\n' * 9)\ndef f(x): return 0",
		"forged values":       "import os\ndef f(x):\n    os.write(4, b'{\"value\": [true, []]}\\n')\n    return 0",
		"atexit":              "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(x): return 0",
		"closes everything":   "import os\nos.closerange(0, 64)\ndef f(x): return 0",
		"no plain data":       "def f(x): return object()",
		"module for a number": "import math\nf = math",
		"asks forever":        "def f(x):\n    l = []; l.append(l)\n    return l",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := check(t, r, Program{Text: text, Tests: tests, Entry: "f"}); v.Passed {
				t.Error("passed")
			}
		})
	}
	if v := check(t, r, Program{Text: "def f(x): return x + 1", Tests: tests, Entry: "f"}); !v.Passed {
		t.Errorf("the right program: %+v", v)
	}
}

// attacks are Python code that raises an exception if it is confined, and otherwise has done harm. OUTSIDE, PORT,
// PARENT and SECRET stand for a folder, a port, a process and a file with a secret.
var attacks = map[string]string{
	"read passwd":                "open('/etc/passwd').read()",
	"read a secret":              "open(SECRET).read()",
	"list the secret's folder":   "os.listdir(OUTSIDE)",
	"list the root":              "os.listdir('/')",
	"write outside":              "open(OUTSIDE + '/written', 'w').write('x')",
	"append to the secret":       "open(SECRET, 'a').write('x')",
	"truncate the secret":        "os.truncate(SECRET, 0)",
	"remove the secret":          "os.remove(SECRET)",
	"rename the secret":          "os.rename(SECRET, 'mine')",
	"make a folder outside":      "os.mkdir(OUTSIDE + '/made')",
	"chmod the secret":           "os.chmod(SECRET, 0o777)",
	"chown the secret":           "os.chown(SECRET, 0, 0)",
	"touch the secret":           "os.utime(SECRET, (0, 0))",
	"attribute of the secret":    "os.setxattr(SECRET, 'user.x', b'y')",
	"hard link to the secret":    "os.link(SECRET, 'mine')",
	"symlink to the secret":      "os.symlink(SECRET, 'l'); open('l').read()",
	"symlink to write outside":   "os.symlink(OUTSIDE, 'd'); open('d/written', 'w').write('x')",
	"parent folders":             "open('../' * 20 + 'etc/passwd').read()",
	"proc: the secret":           "open('/proc/self/root' + SECRET).read()",
	"proc: the parent's memory":  "open('/proc/%d/mem' % PARENT, 'rb', 0)",
	"proc: own memory":           "open('/proc/self/mem', 'rb+', 0)",
	"proc: the parent's secrets": "open('/proc/%d/environ' % PARENT).read()",
	"proc: the parent's files":   "os.listdir('/proc/%d/fd' % PARENT)",
	"socket inet":                "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
	"socket inet, datagrams":     "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
	"socket inet6":               "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
	"socket unix":                "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
	"socket netlink":             "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
	"socket packet":              "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)",
	"socket vsock":               "socket.socket(40, socket.SOCK_STREAM)",
	"socket alg":                 "socket.socket(38, socket.SOCK_SEQPACKET)",
	"socket bluetooth":           "socket.socket(31, socket.SOCK_RAW, 1)",
	"socket pair":                "socket.socketpair()",
	"abstract socket":            "s = socket.socket(socket.AF_UNIX); s.connect('\\0powerinfer-sandbox')",
	"connect":                    "socket.create_connection(('127.0.0.1', PORT), 1)",
	"fork":                       "os.fork()",
	"vfork by hand":              "call(SYS_vfork)",
	"clone by hand":              "call(SYS_clone, 17, 0, 0, 0, 0)",
	"clone3 by hand":             "call(435, 0, 0)",
	"subprocess":                 "subprocess.run(['/bin/true'], check=True)",
	"posix_spawn":                "os.posix_spawn('/bin/true', ['true'], {})",
	"daemonise":                  "os.setsid(); os.fork()",
	"setsid":                     "os.setsid()",
	"execute a program":          "os.execv('/bin/true', ['true'])",
	"execute setuid":             "os.execv('/bin/su', ['su'])",
	"execute an own file":        "open('x', 'w').write('#!/bin/sh'); os.chmod('x', 0o755)",
	"kill the parent":            "os.kill(PARENT, signal.SIGKILL)",
	"terminate the parent":       "os.kill(os.getppid(), signal.SIGTERM)",
	"kill all":                   "os.kill(-1, signal.SIGKILL)",
	"signal by thread":           "call(SYS_tgkill, PARENT, PARENT, 9)",
	"queue a signal":             "call(SYS_rt_sigqueueinfo, PARENT, 9, 0)",
	"signal by pidfd":            "os.pidfd_open(PARENT)",
	"signal by the owner of I/O": "fcntl.fcntl(1, 8, PARENT)",
	"ptrace":                     "call(SYS_ptrace, 16, PARENT, 0, 0)",
	"ptrace itself":              "call(SYS_ptrace, 0, 0, 0, 0)",
	"read the parent's memory":   "call(SYS_process_vm_readv, PARENT, 0, 0, 0, 0, 0)",
	"kcmp":                       "call(SYS_kcmp, PARENT, PARENT, 0, 0, 0)",
	"io_uring":                   "call(425, 8, buffer)",
	"keyctl":                     "call(SYS_keyctl, 0, -3, 0)",
	"add a key":                  "call(SYS_add_key, b'user', b'x', b'y', 1, -3)",
	"bpf":                        "call(SYS_bpf, 0, buffer, 128)",
	"perf":                       "call(SYS_perf_event_open, buffer, 0, -1, -1, 0)",
	"userfaultfd":                "call(SYS_userfaultfd, 1)",
	"mount":                      "call(SYS_mount, b'none', b'/tmp', b'tmpfs', 0, 0)",
	"new mount":                  "call(428, -100, b'/', 1)",
	"chroot":                     "os.chroot('.')",
	"unshare":                    "call(SYS_unshare, 0x10000000)",
	"setns":                      "call(SYS_setns, 0, 0)",
	"shared memory":              "mem = call(SYS_shmget, 77, 4096, 0o1666)",
	"message queue":              "call(SYS_msgget, 77, 0o1666)",
	"semaphores":                 "call(SYS_semget, 77, 1, 0o1666)",
	"posix shared memory":        "open('/dev/shm/powerinfer-sandbox', 'w')",
	"memory file":                "os.memfd_create('x')",
	"set the clock":              "time.clock_settime(time.CLOCK_REALTIME, 0)",
	"set the host's name":        "socket.sethostname('x')",
	"unreadable folder":          "os.mkdir('u', 0o300)",
	"folder that hides files":    "os.mkdir('e', 0o600)",
	"umask":                      "os.umask(0o777)",
	"raise limits":               "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
	"lower the nice value":       "os.nice(-5)",
	"own scheduler":              "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
	"become root":                "os.setuid(0)",
	"groups":                     "os.setgroups([0])",
	"capabilities":               "call(SYS_capset, buffer, buffer)",
	"reboot":                     "call(SYS_reboot, 0, 0, 0, 0)",
	"load a module":              "call(SYS_init_module, 0, 0, b'')",
	"make a device":              "os.mknod('sda', 0o60600, 0x800)",
	"make a fifo":                "os.mkfifo('f')",
	"the terminal":               "open('/dev/tty', 'w').write('x')",
	"type on the terminal":       "fcntl.ioctl(0, 0x5412, b'x')",
	"inherited descriptors":      "INHERITED[0]",
	"secrets of the environment": "[v for v in os.environ.values() if 'hidden' in v][0]",
	"prctl":                      "call(SYS_prctl, 4, 1, 0, 0, 0)",
	"another filter":             "call(SYS_seccomp, 1, 0, buffer)",
	"handles of files":           "call(SYS_open_by_handle_at, -100, buffer, 0)",
	"inotify":                    "call(SYS_inotify_init1, 0)",
	"fanotify":                   "call(SYS_fanotify_init, 0, 0)",
	"sparse file":                "os.ftruncate(os.open('s', os.O_CREAT | os.O_RDWR), 1 << 40)",
	"allocated file":             "os.posix_fallocate(os.open('a', os.O_CREAT | os.O_RDWR), 0, 1 << 40)",
}

// attackNumbers are the numbers of calls that attacks make by hand.
var attackNumbers = map[string]int{
	"clone": unix.SYS_CLONE, "tgkill": unix.SYS_TGKILL, "rt_sigqueueinfo": unix.SYS_RT_SIGQUEUEINFO, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
	"kcmp": unix.SYS_KCMP, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY, "bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"userfaultfd": unix.SYS_USERFAULTFD, "mount": unix.SYS_MOUNT, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "shmget": unix.SYS_SHMGET, "msgget": unix.SYS_MSGGET,
	"semget": unix.SYS_SEMGET, "capset": unix.SYS_CAPSET, "reboot": unix.SYS_REBOOT, "init_module": unix.SYS_INIT_MODULE, "prctl": unix.SYS_PRCTL, "seccomp": unix.SYS_SECCOMP,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "inotify_init1": unix.SYS_INOTIFY_INIT1, "fanotify_init": unix.SYS_FANOTIFY_INIT,
	"vfork": 58, // of amd64; on arm64 it is not there, and 58 another call that is refused
}

// attackText returns a program with a function f that tries an attack and returns "out", or the exception.
func attackText(outside, secret string, port int) string {
	var text strings.Builder
	text.WriteString("import os, socket, signal, fcntl, time, subprocess, ctypes\ntry:\n    import resource\nexcept ImportError:\n    resource = None\nbuffer = ctypes.create_string_buffer(4096)\n")
	fmt.Fprintf(&text, "OUTSIDE, SECRET, PARENT, PORT = %q, %q, %d, %d\n", outside, secret, os.Getpid(), port)
	for name, number := range attackNumbers {
		fmt.Fprintf(&text, "SYS_%s = %d\n", name, number)
	}
	text.WriteString(`
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    if r < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return r
def opens(i):
    try:
        os.fstat(i)
        return True
    except OSError:
        return False
INHERITED = [i for i in range(5, 64) if opens(i)]
def f(attack):
    try:
        exec(attack, globals())
    except Exception as e:
        return type(e).__name__ + ": " + str(e)
    return "out"
`)
	return text.String()
}

// harmlessAttacks are attacks that do no harm without confinement.
var harmlessAttacks = []string{
	"read passwd", "read a secret", "list the secret's folder", "list the root", "write outside", "append to the secret", "make a folder outside", "chmod the secret",
	"touch the secret", "symlink to the secret", "symlink to write outside", "parent folders", "proc: the secret", "proc: own memory", "socket inet", "socket unix",
	"socket netlink", "socket pair", "connect", "subprocess", "posix_spawn", "memory file", "make a fifo", "inotify", "signal by pidfd", "prctl", "unreadable folder", "umask",
}

// TestAttacksWithoutSandbox: without the sandbox the attacks succeed, so the sandbox stops them.
func TestAttacksWithoutSandbox(t *testing.T) {
	runners(t, patient())
	outside, folder := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("hidden"), 0o644); err != nil {
		t.Fatal(err)
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	text := attackText(outside, secret, listen.Addr().(*net.TCPAddr).Port)
	for _, attack := range harmlessAttacks {
		text += fmt.Sprintf("r = f(%q)\nif r != 'out': print(%q, r)\n", attacks[attack], attack)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-I", "-c", text)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.Chmod(filepath.Join(folder, "u"), 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// None of the attacks gets out, with namespaces or without.
func TestAttacks(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("hidden"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POWERINFER_TEST_SECRET", "hidden")
	inherited, err := unix.Open(secret, unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	text := attackText(outside, secret, listen.Addr().(*net.TCPAddr).Port)
	for name, r := range runners(t, patient()) {
		var tests strings.Builder
		tests.WriteString("got = []\n")
		for attack, code := range attacks {
			fmt.Fprintf(&tests, "r = f(%q)\nif r == 'out' or 'Name' in r or 'Syntax' in r: got.append(%q + ' ' + r)\n", code, attack)
		}
		tests.WriteString("assert not got, got\n")
		if v := check(t, r, Program{Text: text, Tests: tests.String()}); !v.Passed {
			t.Errorf("%s: %s", name, v.Why)
		}
	}
	if data, err := os.ReadFile(secret); string(data) != "hidden" || err != nil {
		t.Errorf("the secret is %q, %v", data, err)
	}
	if left, _ := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("outside lie %v", left)
	}
	if len(attacks) < 30 {
		t.Errorf("only %d attacks", len(attacks))
	}
}

// Programs that do not end, or take all there is, are ended at a limit and leave nothing behind.
func TestBombs(t *testing.T) {
	testenv.Thorough(t)
	l := DefaultLimits()
	l.Time, l.Memory = 1500*time.Millisecond, 256<<20
	short := runners(t, l)["bare"]
	l.Time = time.Minute // on a busy machine Python may begin later than the short one ends
	long := runners(t, l)["bare"]
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	const timeOut = "it took longer than"
	t.Run("all", func(t *testing.T) { // returns when all have ended
		for _, c := range []struct{ name, text, why string }{
			{"memory", "def f(x): return len(bytearray(1 << 40)) + len('x' * (1 << 30))", "MemoryError"},
			{"memory by steps", "def f(x):\n    l = []\n    while True: l.append(bytearray(1 << 20))", ""},
			{"output", "def f(x):\n    while True: print('x' * 1000)", "it wrote too much output"},
			{"files", "def f(x):\n    for i in range(10**6): open(str(i), 'w').close()", "it wrote too many files"},
			{"deep folders", "import os\ndef f(x):\n    while True:\n        os.mkdir('d'); os.chdir('d')", "it wrote too many files"},
			{"large files", "def f(x):\n    for i in range(200):\n        with open(str(i), 'wb') as o: o.write(bytes(15 << 20))", ""},
			{"endless line", "import os\ndef f(x):\n    while True: os.write(4, b'1' * 65536)", ""},
			{"recursion", "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)", ""},
			{"crash", "import ctypes\ndef f(x): return ctypes.string_at(0)", "Ended"},
			{"forever, with deaf ears", "import signal, time\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\ndef f(x): time.sleep(9999)", timeOut},
			{"threads", "import threading, time\ndef f(x):\n    for i in range(10000): threading.Thread(target=time.sleep, args=(9999,)).start()", ""},
			{
				"removed files", "import os\nos.o = []\ndef f(x):\n    for i in range(1000):\n        o = open(str(i % 50), 'wb'); os.o.append(o); os.unlink(str(i % 50)); o.write(bytes(15 << 20))",
				"its files are too large",
			},
			{
				"mapped files", "import mmap, os\nos.o = []\ndef f(x):\n    for i in range(1000):\n        with open('x', 'wb+') as o:\n            o.truncate(15 << 20); os.o.append(mmap.mmap(o.fileno(), 0))\n" +
					"        os.unlink('x'); os.o[-1].write(bytes(15 << 20))",
				"its files are too large",
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r := long
				if c.why == "" || c.why == timeOut {
					r = short
				}
				if v := check(t, r, Program{Text: c.text, Tests: "assert f(1) == 2"}); v.Passed || !strings.Contains(v.Why, c.why) {
					t.Errorf("%+v, want %q", v, c.why)
				}
			})
		}
	})
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if pids := confinedProcesses(t); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
}

// confinedProcesses returns our children.
func confinedProcesses(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(e.Name())
			pids = append(pids, pid)
		}
	}
	return pids
}

// A run ends with its context, and its processes with it.
func TestCancelled(t *testing.T) {
	l := patient()
	r := runners(t, l)["bare"]
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		testenv.Eventually(t, "a process", func() bool { return len(confinedProcesses(t)) > 0 })
		cancel()
	}()
	if _, err := r.Check(ctx, Program{Text: "while True: pass", Tests: "pass"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if pids := confinedProcesses(t); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
}

// Without Python the reason is given.
func TestNoPython(t *testing.T) {
	if _, err := New(t.Context(), "python-that-is-not-there", DefaultLimits()); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "install Python 3") &&
		!strings.Contains(err.Error(), "Landlock") {
		t.Errorf("%v", err)
	}
}

// hang runs a program that does not end, until this process is killed.
func hang() {
	os.Setenv("TMPDIR", os.Getenv(hangsIn))
	l := patient()
	r, err := New(context.Background(), "python3", l)
	if err == nil {
		_, err = r.Check(context.Background(), Program{Text: "import time\nopen('begun', 'w').close()\nwhile True: time.sleep(1)", Tests: "pass"})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A killed run takes its processes along, and the next one removes its folders, but none that is in use.
func TestKilled(t *testing.T) {
	runners(t, patient())
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), hangsIn+"="+folder)
	killed.Stderr = os.Stderr
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	begun := func() []string {
		found, _ := filepath.Glob(filepath.Join(folder, scratchPrefix+"*", "begun"))
		return found
	}
	t.Cleanup(func() { _ = killed.Process.Kill() })
	testenv.Eventually(t, "the program's begin", func() bool { return len(begun()) > 0 })
	if n := len(processesIn(folder)); n < 2 {
		t.Errorf("%d processes run, not the program and its tests", n)
	}
	sweep()
	if len(begun()) == 0 {
		t.Error("the folder of a program that runs was removed")
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	testenv.Eventually(t, "its processes' end", func() bool { return len(processesIn(folder)) == 0 })
	if len(begun()) == 0 {
		t.Error("there is nothing to remove")
	}
	if _, err := New(t.Context(), "python3", patient()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// processesIn returns the processes with a temporary folder below folder.
func processesIn(folder string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if env, err := os.ReadFile(path); err == nil && strings.Contains(string(env), "TMPDIR="+folder+"/"+scratchPrefix) {
			found = append(found, path)
		}
	}
	return found
}

// TestUnprivileged: the sandbox confines programs of ordinary users like those of root, with and without namespaces,
// and leaves no files.
func TestUnprivileged(t *testing.T) {
	runners(t, patient())
	if os.Geteuid() != 0 {
		t.Skip("all other tests run without privileges already")
	}
	folder, err := os.MkdirTemp("", "unprivileged-") // only root can read t.TempDir's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(folder, "test")
	const user = 54321
	scratch := filepath.Join(folder, "scratch")
	if err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(copied, binary, 0o755), os.Mkdir(scratch, 0o700), os.Chown(scratch, user, user)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		user   string // as TestUser prints it
		launch []string
	}{
		{"namespaces", fmt.Sprintf("user %d, namespaces ", user), nil}, // where the machine allows them
		{"namespaces forbidden", fmt.Sprintf("user %d, namespaces false", user), []string{"sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"`, "sh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv := append(slices.Clone(c.launch), "setpriv", "--reuid", strconv.Itoa(user), "--regid", strconv.Itoa(user), "--clear-groups", "--inh-caps=-all",
				copied, "-test.v", "-test.run", "^(TestAttacks|TestKilled|TestUser)$")
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Env, cmd.Dir = append(os.Environ(), "TMPDIR="+scratch, "HOME=/nonexistent"), folder
			if c.launch != nil { // the limit is that of a namespace of users below
				ids := []syscall.SysProcIDMap{{Size: user + 1}}
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestAttacks") || !strings.Contains(string(out), c.user) {
				t.Errorf("%v: %s", err, out)
			}
			if left, _ := os.ReadDir(scratch); len(left) != 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// TestUser prints for TestUnprivileged which user runs it.
func TestUser(t *testing.T) {
	t.Logf("user %d, namespaces %t", os.Geteuid(), len(runners(t, patient())) > 1)
}

// Calls by the numbers of other architectures do not pass by the filter.
func TestOtherNumbers(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("amd64 alone has calls by other numbers")
	}
	r := runners(t, patient())["bare"]
	text := `
import ctypes, mmap
def run(code):
    m = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    m.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
def f(kind):
    if kind == "int 0x80": return run(b"\xb8\x02\x00\x00\x00\xcd\x80\xc3") # fork of 32 bits
    if kind == "x32": return run(b"\xb8\x39\x00\x00\x40\x0f\x05\xc3") # fork of x32
    return run(b"\xb8\x27\x00\x00\x00\x0f\x05\xc3") # getpid
`
	if v := check(t, r, Program{Text: text, Tests: "assert f('getpid') > 0"}); !v.Passed {
		t.Fatalf("code does not run: %s", v.Why)
	}
	for _, kind := range []string{"int 0x80", "x32"} { // an error, or the end where the kernel has no such calls
		if v := check(t, r, Program{Text: text, Tests: "r = f('" + kind + "')\nassert not -4096 < r < 0, r"}); v.Passed ||
			!strings.Contains(v.Why, "AssertionError: -") && !strings.Contains(v.Why, "Ended") {
			t.Errorf("%s: %+v", kind, v)
		}
	}
	if pids := confinedProcesses(t); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
}

// TestMissingLandlock: a missing feature is an error with advice.
func TestMissingLandlock(t *testing.T) {
	for _, c := range []struct {
		version int
		err     error
		want    string
	}{
		{3, nil, ""},
		{7, nil, ""},
		{2, nil, "the kernel has version 2 of Landlock, and 3 is needed, of Linux 6.2 or newer"},
		{0, unix.EOPNOTSUPP, "Landlock is switched off: add landlock to the list that the kernel is started with"},
		{0, unix.EPERM, "Landlock is forbidden here, as by a container's filter of calls: allow landlock_create_ruleset"},
		{0, unix.ENOSYS, "the kernel has no Landlock, which Linux has from 6.2 on"},
	} {
		if got := missingLandlock(c.version, c.err); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%d, %v: %q", c.version, c.err, got)
		}
	}
}
