//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

// createUnnamed returns nil: this system has no files without a name.
func createUnnamed(string, uint32) *os.File { return nil }

func nameIt(*os.File, string) error { return errors.ErrUnsupported }
