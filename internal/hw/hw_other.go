//go:build !linux && !darwin && !windows

package hw

import (
	"errors"
	"fmt"
	"runtime"
)

func readTopology() topology { return topology{} }

func busyTasks() int { return 0 }

// ReadMemory is not known here.
func ReadMemory() (Memory, error) {
	return Memory{}, fmt.Errorf("hw: memory on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
