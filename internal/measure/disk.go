package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Disk is how fast a disk was read.
type Disk struct {
	Device string      `json:"device"` // the file system, as disk.Device names it
	Path   string      `json:"path"`   // the file or folder that it was measured with
	At     time.Time   `json:"at"`
	Busy   int         `json:"busy,omitempty"` // tasks of other programs that ran at the same time
	Speeds disk.Speeds `json:"speeds"`
}

// Check reports figures that no disk has.
func (d *Disk) Check() error {
	if len(d.Speeds) == 0 {
		return fmt.Errorf("disk %s: no speed", d.Path)
	}
	if err := d.Speeds.Check(); err != nil {
		return fmt.Errorf("disk %s: %w", d.Path, err)
	}
	return nil
}

// LeastFile is the size of a file that is enough to measure its disk by reading it. [bytes]
const LeastFile = disk.LeastMeasured

// mostDisks bounds the number of disks that are kept, the latest ones.
const mostDisks = 16

// DisksFile returns the file in which DiskOf keeps measurements.
func DisksFile() (string, error) {
	machine, err := CacheFile()
	return filepath.Join(filepath.Dir(machine), "disks.json"), err
}

// DiskOf returns how fast the disk of path, a file or a folder, is read: from the file at kept, or measured now, in
// some 3 seconds, and stored there. If path is a small file, it reads a temporary one in its folder. A file that cannot
// be written is not an error. Without a name nothing is stored.
func DiskOf(ctx context.Context, kept, path string, progress func(done, total int64)) (Disk, error) {
	if d, ok := KeptDisk(kept, path); ok {
		return d, nil
	}
	device, err := disk.Device(path)
	if err != nil {
		return Disk{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return Disk{}, err
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Size() < LeastFile {
		path = filepath.Dir(path)
	}
	d := Disk{Device: device, Path: path, At: time.Now(), Busy: hw.BusyTasks()}
	if d.Speeds, err = disk.Measure(ctx, path, progress); err != nil {
		return Disk{}, err
	}
	if kept != "" {
		list, _ := readDisks(kept)
		list = slices.DeleteFunc(list, func(o Disk) bool { return o.Device == device })
		list = append(list, d)
		_ = writeDisks(kept, list[max(0, len(list)-mostDisks):])
	}
	return d, nil
}

// KeptDisk returns the measurement of path's disk in the file at kept. ok is false if there is none, or if more than
// twice as many tasks of other programs ran then as now.
func KeptDisk(kept, path string) (d Disk, ok bool) {
	list, err := readDisks(kept)
	if err != nil || len(list) == 0 {
		return d, false
	}
	device, err := disk.Device(path)
	if err != nil {
		return d, false
	}
	i := slices.IndexFunc(list, func(d Disk) bool { return d.Device == device })
	if i < 0 || list[i].Busy > 0 && 2*hw.BusyTasks() < list[i].Busy {
		return d, false
	}
	return list[i], true
}

// readDisks reads the disks of a file; no file, or none by that name, has none.
func readDisks(path string) ([]Disk, error) {
	if path == "" {
		return nil, nil
	}
	text, err := wholefile.Read(path, cacheLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Disk
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range list {
		if err := list[i].Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return list, nil
}

func writeDisks(path string, list []Disk) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, atomicfile.Kind{Shared: true}, func(f *atomicfile.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(list)
	})
}
