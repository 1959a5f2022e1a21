package gguf

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// resident returns how many bytes of the mapping of path are in this process's memory, according to the kernel.
func resident(t *testing.T, path string) int { return account(t, path, "Rss:") }

// account returns one field of the kernel's account of the mapping of path, in bytes.
func account(t *testing.T, path, name string) int {
	t.Helper()
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer maps.Close()
	kib, inside := 0, false
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if !strings.HasSuffix(field[0], ":") { // the line that begins a mapping
			inside = strings.HasSuffix(lines.Text(), path)
		} else if field[0] == name && inside {
			n, _ := strconv.Atoi(field[1])
			kib += n
		}
	}
	return kib << 10
}

// TestLock: a locked file counts as locked, or the error says what to do.
func TestLock(t *testing.T) {
	const mib = 1 << 20
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := Create(t.Context(), path, "GGUF", nil, []Source{bytesOf("w", quant.F32, []int{mib / 4}, make([]byte, mib))}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Lock(); err != nil {
		if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "ulimit -l") {
			t.Errorf("error %q does not name the file and the limit", err)
		}
		return
	}
	if got := account(t, path, "Locked:"); got < mib {
		t.Errorf("%d bytes are locked, of %d", got, mib)
	}
}

// TestResident: Populate reads all of the file, DontNeed drops a tensor's whole pages and keeps its neighbours.
func TestResident(t *testing.T) {
	const mib = 1 << 20
	path := filepath.Join(t.TempDir(), "m.gguf")
	in := []Source{
		bytesOf("kept", quant.F32, []int{mib / 4}, make([]byte, mib)),
		bytesOf("dropped", quant.F32, []int{mib}, make([]byte, 4*mib)),
	}
	if err := Create(t.Context(), path, "GGUF", nil, in, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Populate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	const page = 64 << 10 // at most, on any Linux
	if got := resident(t, path); got < 5*mib {
		t.Errorf("%d bytes resident after Populate, of more than %d", got, 5*mib)
	}
	f.DontNeed(f.Tensor("dropped"))
	if got := resident(t, path); got < mib || got > mib+2*page {
		t.Errorf("%d bytes resident after 4 of 5 MiB were dropped", got)
	}
}
