//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"fmt"
	"runtime"
)

func newRunner(context.Context, string, Limits) (*Runner, error) {
	return nil, fmt.Errorf("%w: they are confined by Linux's seccomp and Landlock on amd64 and arm64, and this is %s on %s; run the programs there",
		ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func (r *Runner) check(context.Context, Program) (Verdict, error) { return Verdict{}, ErrUnsupported }

// Child returns: processes are confined on Linux only.
func Child() {}
