//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	seccomp "github.com/elastic/go-seccomp-bpf"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// leastLandlock is the first version of Landlock that protects files from being truncated: Linux 6.2.
const leastLandlock = 3

// whereScript makes Python print its folders.
const whereScript = `import sys, sysconfig, json, os
p = sysconfig.get_paths()
folders = {p[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")} | {sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("DESTSHARED") or ""}
folders = {os.path.realpath(f) for f in folders if f} | folders - {""}
exe = os.path.realpath(sys.executable)
files = [os.path.join(os.path.dirname(sys.executable), "pyvenv.cfg"), os.path.join(sys.prefix, "pyvenv.cfg")]
print(json.dumps({"executable": exe, "folders": sorted(folders), "files": files}))`

// systemLibraries are the loader's folders.
var systemLibraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"}

func newRunner(ctx context.Context, python string, limits Limits) (*Runner, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrUnsupported, fmt.Errorf(format, args...))
	}
	if why := missingLandlock(ll.LandlockGetABIVersion()); why != "" {
		return nil, refuse("%s; %s", why, elsewhere)
	}
	if !seccomp.Supported() {
		return nil, refuse("the kernel has no seccomp filters, or the container's own forbids them; %s", elsewhere)
	}
	path, err := exec.LookPath(python)
	if err != nil {
		return nil, refuse("there is no %s: install Python 3", python)
	}
	sweep()
	const patience = time.Minute // on a busy machine Python takes seconds to begin
	trial, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, err := exec.CommandContext(trial, path, "-I", "-c", whereScript).Output()
	r := &Runner{limits: DefaultLimits()}
	r.limits.Time = patience
	if err == nil {
		err = json.Unmarshal(said, &r.python)
	}
	if err != nil {
		return nil, refuse("%s does not say where it lies: %w", path, err)
	}
	r.python.Folders = append(r.python.Folders, systemLibraries...)
	for _, r.namespaces = range []bool{true, false} {
		var v Verdict
		if v, err = r.Check(trial, Program{Text: "def f(): return 1", Tests: "assert f() == 1"}); err == nil && v.Passed {
			r.limits = limits
			return r, nil
		} else if err == nil {
			err = errors.New(v.Why)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, refuse("a first program did not run: %w; %s", err, elsewhere)
}

// elsewhere says what to do where programs cannot run.
const elsewhere = "run the programs on another machine"

// missingLandlock says why the kernel's version of Landlock is not enough; empty: it is.
func missingLandlock(version int, err error) string {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return "Landlock is switched off: add landlock to the list that the kernel is started with (lsm=landlock,…)"
	case errors.Is(err, unix.EPERM):
		return "Landlock is forbidden here, as by a container's filter of calls: allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"
	case err != nil:
		return fmt.Sprintf("the kernel has no Landlock, which Linux has from 6.2 on as it is needed: %v", err)
	case version < leastLandlock:
		return fmt.Sprintf("the kernel has version %d of Landlock, and %d is needed, of Linux 6.2 or newer", version, leastLandlock)
	}
	return ""
}

// process is a confined Python.
type process struct {
	cmd     *exec.Cmd
	scratch *scratch
	output  *limited
	ended   chan struct{}
	mu      sync.Mutex
	why     string // it was killed
}

// kill ends the process for a reason, if it has not ended.
func (p *process) kill(why string) {
	p.mu.Lock()
	if p.why == "" {
		p.why = why
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it has no children
}

// reason returns why the process was killed; empty: it was not.
func (p *process) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// limited keeps the first bytes of an output, and calls full when there are more.
type limited struct {
	mu   sync.Mutex
	kept bytes.Buffer
	most int
	full func()
}

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	room := l.most - l.kept.Len()
	l.kept.Write(b[:min(len(b), max(0, room))])
	l.mu.Unlock()
	if len(b) > room {
		l.full()
	}
	return len(b), nil
}

// text returns the last line of the output.
func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(l.kept.String()), "\n")
	return lines[len(lines)-1]
}

// start starts a script with files as its descriptors from 3 on; they are closed here.
func (r *Runner) start(script string, stdin io.Reader, files ...*os.File) (*process, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	folder, err := newScratch()
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*process, error) { return nil, errors.Join(err, folder.remove()) }
	const standard = 3 // descriptors
	spec, err := json.Marshal(confined{Python: r.python, Scratch: folder.path, Script: script, Limits: r.limits, Files: uint(standard + len(files))})
	if err != nil {
		return fail(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	p := &process{scratch: folder, ended: make(chan struct{})}
	p.output = &limited{most: r.limits.Output, full: func() { p.kill("it wrote too much output") }}
	p.cmd = &exec.Cmd{
		Path: self, Args: []string{os.Args[0], childMark, string(spec)}, Env: []string{}, Dir: folder.path,
		Stdin: stdin, Stdout: p.output, Stderr: p.output, ExtraFiles: files, SysProcAttr: r.attributes(),
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the process dies with this thread
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the verdict is the tester's, not a status
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return fail(err)
	}
	go p.watch(r.limits)
	return p, nil
}

// attributes are those of a process in its own session, which dies with us, and in its own namespaces if they are
// allowed.
func (r *Runner) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if r.namespaces {
		const nobody = 65534
		a.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// watchEvery is the time between two checks of a process's files: Linux has no limit for a folder.
const watchEvery = 20 * time.Millisecond

// watch kills the process when its files are too many or too large.
func (p *process) watch(l Limits) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-t.C:
			if files, size := p.scratch.usage(l.Files); files > l.Files {
				p.kill("it wrote too many files")
			} else if size+p.scratch.held(p.cmd.Process.Pid) > l.Disk {
				p.kill("its files are too large")
			}
		}
	}
}

// end kills the rest of the process and removes its files.
func (p *process) end() error {
	select {
	case <-p.ended:
	default:
		p.kill("")
		<-p.ended
	}
	return p.scratch.remove()
}

// testerSpec is the tester's input.
type testerSpec struct {
	Program string   `json:"program"`
	Setup   string   `json:"setup"`
	Tests   string   `json:"tests"`
	Entry   string   `json:"entry"`
	Keep    []string `json:"keep"`
}

func (r *Runner) check(ctx context.Context, p Program) (v Verdict, err error) {
	spec, err := json.Marshal(testerSpec{p.Text, p.Setup, p.Tests, p.Entry, append([]string{p.Entry}, p.Keep...)})
	if err != nil {
		return v, err
	}
	var pipes [6]*os.File // requests, answers, verdict: reader and writer of each
	for i := 0; i < len(pipes); i += 2 {
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil {
			for _, f := range pipes[:i] {
				f.Close()
			}
			return v, err
		}
	}
	defer pipes[4].Close()
	candidate, err := r.start(candidateScript, nil, pipes[0], pipes[3])
	if err != nil {
		for _, f := range []*os.File{pipes[1], pipes[2], pipes[5]} {
			f.Close()
		}
		return v, err
	}
	defer func() { err = errors.Join(err, candidate.end()) }()
	tester, err := r.start(testerScript, bytes.NewReader(spec), pipes[2], pipes[1], pipes[5])
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, tester.end()) }()
	late := time.NewTimer(r.limits.Time)
	defer late.Stop()
	select {
	case <-tester.ended:
	case <-late.C:
		return Verdict{Why: fmt.Sprintf("it took longer than %s", r.limits.Time)}, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
	return verdict(candidate, tester, pipes[4])
}

// mostVerdict bounds the tester's output.
const mostVerdict = 16 << 10

// verdict reads the tester's output. An error means that the tester could not run.
func verdict(candidate, tester *process, said *os.File) (v Verdict, err error) {
	line, err := io.ReadAll(io.LimitReader(said, mostVerdict))
	if err != nil {
		return v, err
	}
	if json.Unmarshal(line, &v) != nil || len(line) == 0 {
		v = Verdict{Why: "the tests did not end: " + tester.output.text()}
		if text := tester.output.text(); strings.HasPrefix(text, childMark) {
			return v, errors.New(text)
		}
	}
	if v.Passed {
		return v, nil
	}
	select {
	case <-candidate.ended: // it did not wait to be asked, or could not begin
		if text := candidate.output.text(); strings.HasPrefix(text, childMark) {
			return v, errors.New(text)
		}
	default:
	}
	if why := candidate.reason(); why != "" {
		v.Why = why
	}
	return v, nil
}
