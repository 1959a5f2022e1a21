package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// cacheLimit bounds the size of a machine's file.
const cacheLimit = 1 << 20

// CacheFile returns the file in which Cached keeps measurements.
func CacheFile() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "powerinfer", "machine.json"), nil
}

// Cached returns the file at path if it was measured on this machine with these GPUs and drivers, and need not be
// measured again; otherwise ok is false.
func Cached(path string, found []Found) (m Machine, ok bool) {
	m, err := Read(path)
	return m, err == nil && m.Taken != nil && m.complete() && !m.Taken.due(hw.BusyTasks()) && m.same(This(found))
}

// complete reports whether m has the figures that this version takes.
func (m *Machine) complete() bool {
	return m.Speeds != nil && m.Speeds.Each > 0 && !slices.ContainsFunc(m.GPUs, func(c GPU) bool { return c.Speeds != nil && c.Speeds.EveryRow.Read == 0 })
}

// same reports whether m was measured on this machine, now. Memory may differ by what a limit or the kernel takes.
func (m *Machine) same(now Machine) bool {
	ids := func(gpus []GPU) (list []ID) {
		for _, c := range gpus {
			list = append(list, c.ID)
		}
		return list
	}
	const slack = 1 << 30
	return m.CPU == now.CPU && m.Cores == now.Cores && max(m.Memory, now.Memory)-min(m.Memory, now.Memory) < slack &&
		slices.Equal(ids(m.GPUs), ids(now.GPUs))
}

// Read reads a machine's file, also one written by hand. Errors are one line that begins with path.
func Read(path string) (Machine, error) {
	var m Machine
	f, err := os.Open(path)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return m, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, cacheLimit))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Machine{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := m.Check(); err != nil {
		return Machine{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Write writes the machine's file, and makes its folder.
func (m *Machine) Write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Kind{Shared: true}, func(f *atomicfile.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
}

// WithKernels returns the machine like Of, with its Kernels. They are measured now unless the file has them.
func WithKernels(ctx context.Context, path string, found []Found, progress func(done, total int64)) (Machine, error) {
	m, err := Of(ctx, path, found, progress)
	if err != nil || kernelSteps() == 0 || len(m.Kernels) > 0 && m.Kernels[0].Why != "" {
		return m, err
	}
	if err := m.TakeKernels(ctx, progress); err != nil {
		return m, err
	}
	if path != "" {
		_ = m.Write(path)
	}
	return m, nil
}

// Of returns the machine from the file at path, or measures it now and writes the file; doubtful figures stay until
// they can be measured again. A file that cannot be written is not an error: the next time takes as long. Without a
// path nothing is stored.
func Of(ctx context.Context, path string, found []Found, progress func(done, total int64)) (Machine, error) {
	if path != "" {
		if m, ok := Cached(path, found); ok {
			return m, nil
		}
	}
	m, err := Take(ctx, found, progress)
	if err == nil && path != "" {
		_ = m.Write(path)
	}
	return m, err
}
