//go:build !linux && !darwin

package bundle

import "os"

// direct returns nil: the page cache is not gone past on this system.
func direct(string) *os.File { return nil }

// toDisk and forget do nothing: this system has no calls for ranges of a file.
func toDisk(*os.File, int64, int64) {}
func forget(*os.File, int64, int64) {}
