// Package sandbox runs programs that a model wrote, in Python, and says whether they pass tests.
//
// A program and its tests are two processes. The program's process answers calls and knows no test, and only plain data
// crosses between the two. So a program cannot say that it passes: neither by an early exit, nor by changing what the
// tests compare with.
//
// Each process has no network, reads only Python's own files, writes only into its own folder, which is removed
// afterwards, starts no other process, and has limits on time, memory, files and output. On Linux seccomp and Landlock
// ensure that, without privileges; namespaces are added if they are allowed. On other systems nothing is run.
package sandbox

import (
	"context"
	_ "embed"
	"errors"
	"regexp"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/eval/task"
)

//go:embed candidate.py
var candidateScript string

//go:embed tester.py
var testerScript string

// Program is a program with its tests.
type Program struct {
	Text  string   // the program
	Setup string   // run after it, if not empty
	Tests string   // fail by an exception
	Entry string   // the function with which the tests' check is called; empty: the tests call functions themselves
	Keep  []string // functions of the program that the tests see though they have the names of Python's own
}

// Verdict is what became of a program.
type Verdict struct {
	Passed bool
	Why    string // it did not
}

// Limits bound a process.
type Limits struct {
	Time   time.Duration // wall clock, for a program and all its tests
	Memory int64         // bytes of address space
	Disk   int64         // bytes of all files together
	Files  int           // number of files and folders
	Output int           // bytes written to standard output and standard error
}

// DefaultLimits returns the usual ones: HumanEval's programs take milliseconds.
func DefaultLimits() Limits {
	return Limits{Time: 10 * time.Second, Memory: 1 << 30, Disk: 16 << 20, Files: 256, Output: 64 << 10}
}

// ErrUnsupported is the error, wrapped with the reason, of a machine that cannot confine programs.
var ErrUnsupported = errors.New("programs that a model wrote are not run on this machine")

// Runner runs programs. Its methods may be called from several goroutines.
type Runner struct {
	limits     Limits
	python     pythonPaths
	namespaces bool // are allowed and used
}

// pythonPaths are Python's places.
type pythonPaths struct {
	Executable string   `json:"executable"`
	Folders    []string `json:"folders"` // it reads
	Files      []string `json:"files"`   // other files that it reads
}

// New returns a runner that uses the Python called python, or an error with the reason.
func New(ctx context.Context, python string, limits Limits) (*Runner, error) {
	return newRunner(ctx, python, limits)
}

// Check runs p. An error is the machine's or ctx's, not the program's.
func (r *Runner) Check(ctx context.Context, p Program) (Verdict, error) { return r.check(ctx, p) }

// definition matches a function's name in Python.
var definition = regexp.MustCompile(`(?m)^def (\w+)\(`)

// CheckCompletion runs a completion of a task's program with the program's tests.
func (r *Runner) CheckCompletion(ctx context.Context, p *task.Program, completion string) (Verdict, error) {
	q := Program{Text: p.Code + completion, Setup: p.Setup, Tests: p.Tests, Entry: p.Entry}
	for _, name := range definition.FindAllStringSubmatch(p.Right, -1) {
		q.Keep = append(q.Keep, name[1])
	}
	return r.check(ctx, q)
}
