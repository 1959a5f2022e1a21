package gguf

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestMetadataLimit: a sparse file of 10 GiB, which takes no room on a disk, does not make the reader exceed its memory
// limit.
func TestMetadataLimit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not sparse there unless asked")
	}
	const size = 10 << 30
	for name, header := range map[string]raw{
		"strings":       start(3, 0, 1).key("k", kindArray).u32(kindString).u64(1 << 30),
		"one string":    start(3, 0, 1).key("k", kindString).u64(9 << 30),
		"numbers":       start(3, 0, 1).key("k", kindArray).u32(kindUint64).u64(1 << 30),
		"bools":         start(3, 0, 1).key("k", kindArray).u32(kindBool).u64(1 << 30),
		"nested arrays": start(3, 0, 1).key("k", kindArray).u32(kindArray).u64(1 << 29),
		"tensors":       start(3, 1<<28, 0),
		"keys":          start(3, 0, 1<<28),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sparse.gguf")
			if err := os.WriteFile(path, header, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, size); err != nil {
				t.Skip("this file system has no such files:", err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := Open(path)
			runtime.ReadMemStats(&after)
			if err == nil {
				f.Close()
				t.Fatal("the file was opened")
			}
			if !strings.Contains(err.Error(), "makes the metadata larger than 512 MiB") {
				t.Error(err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > maxHeld {
				t.Errorf("%d bytes were allocated", got)
			}
		})
	}
}
