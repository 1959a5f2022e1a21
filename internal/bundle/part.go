package bundle

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// partSuffix is added to the name of a file that is not whole yet.
const partSuffix = ".part"

// part is an incomplete bundle file, locked by this process. Until it is complete it begins with a record instead of
// its header: how many layers are on the disk. A layer is counted once its bytes are there, so the record is right at
// whatever moment a process or the machine stops.
type part struct {
	y      *layout
	path   string
	file   *os.File
	direct *os.File // the same file, written past the page cache; nil if that is impossible
	layers int      // that are whole
	last   int64    // begin of the bytes that were written last and may still be in the page cache
	dirty  int64    // how many these are
}

// recordMagic begins a part. A file that begins otherwise is not touched.
const recordMagic = "PINEURONS\r\n\x1a"

// recordBytes is the size of a record: its magic, the layout's identity, the number of complete layers, a checksum.
const recordBytes = len(recordMagic) + 32 + 4 + 4

func (p *part) record() []byte {
	id := p.y.identity()
	b := append([]byte(recordMagic), id[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.layers))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// layersOf returns how many layers of y a record counts.
func (y *layout) layersOf(b []byte) int {
	const at = recordBytes - 8
	if len(b) < recordBytes {
		return 0
	}
	n := binary.LittleEndian.Uint32(b[at:])
	if n > uint32(len(y.layers)) || !bytes.Equal(b[:recordBytes], (&part{y: y, layers: int(n)}).record()) {
		return 0
	}
	return int(n)
}

// patience is the time between two looks at whether another process is done.
const patience = 200 * time.Millisecond

// take opens and locks the part of the bundle file at path. It waits while another process has it.
func take(ctx context.Context, y *layout, path string, m *Making) (*part, error) {
	for told := false; ; {
		p := &part{y: y, path: path + partSuffix}
		held, err := p.open()
		if err != nil || !held && p.file != nil {
			return p, err
		}
		if !held {
			continue
		}
		if !told && m.Notice != nil {
			m.Notice(fmt.Sprintf("another process is writing %s; waiting for it", path))
		}
		told = true
		if m.Progress != nil && p.layers > 0 {
			m.Progress(p.end(), y.size)
		}
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open opens the part, makes it if it is missing, and locks it. held: another process has locked it. If another process
// has renamed the file meanwhile, the part has no file afterwards.
func (p *part) open() (held bool, err error) {
	if info, err := os.Lstat(p.path); err == nil && !info.Mode().IsRegular() {
		return false, p.foreign()
	}
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return false, err
	}
	close := true
	defer func() {
		if close {
			f.Close()
		}
	}()
	head := make([]byte, atomicfile.Head)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if head = head[:n]; !ours(head) {
		return false, p.foreign()
	}
	p.layers = p.y.layersOf(head)
	if held, err = atomicfile.Lock(f); held || err != nil {
		return held, err
	}
	named, err := os.Lstat(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if opened, e := f.Stat(); err != nil || e != nil || !os.SameFile(named, opened) {
		return false, nil
	}
	p.file, close = f, false
	return false, nil
}

// ours reports whether a file with this beginning is a part, even one that a power loss damaged.
func ours(head []byte) bool {
	return len(bytes.Trim(head, "\x00")) == 0 || bytes.HasPrefix(head, []byte(recordMagic)) || bytes.HasPrefix(head, []byte("GGUF"))
}

func (p *part) foreign() error {
	return fmt.Errorf("%s is in the way of a new file: %w; move it", p.path, atomicfile.ErrForeign)
}

// begin reads what an earlier process has left, and cuts off an incomplete layer.
func (p *part) begin() error {
	p.direct = direct(p.path)
	head := make([]byte, recordBytes)
	if _, err := p.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.layers = p.y.layersOf(head)
	if whole, err := p.y.open(p.path); err == nil { // all but its name
		whole.Close()
		p.layers = len(p.y.layers)
		return nil
	}
	if info.Size() < p.end() {
		p.layers = 0
	}
	if p.layers == 0 {
		if err := p.file.Truncate(0); err != nil {
			return err
		}
		return p.note()
	}
	return p.file.Truncate(p.end())
}

// end returns where the next layer begins.
func (p *part) end() int64 {
	if p.layers == 0 {
		return int64(len(p.y.head))
	}
	return p.y.layers[p.layers-1].end()
}

func (p *part) note() error {
	_, err := p.file.WriteAt(p.record(), 0)
	return err
}

// write writes whole blocks from data, which begins at a block of memory, after those written last.
func (p *part) write(data []byte, at int64) error {
	if p.direct != nil {
		_, err := p.direct.WriteAt(data, at)
		if !errors.Is(err, syscall.EINVAL) { // a file system that wants more than blocks
			return err
		}
	}
	if _, err := p.file.WriteAt(data, at); err != nil {
		return err
	}
	toDisk(p.file, at, int64(len(data)))
	forget(p.file, p.last, p.dirty) // while the new ones are written
	p.last, p.dirty = at, int64(len(data))
	return nil
}

// blocks returns n bytes of memory that begin with a block. n is a multiple of whole blocks.
func blocks(n int64) []byte {
	b := make([]byte, n+block)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % block
	return b[skip:][:n:n]
}

// finished waits until the layer is on the disk, and counts it.
func (p *part) finished() error {
	if err := p.sync(); err != nil {
		return err
	}
	p.layers++
	return p.note()
}

// sync waits until all that was written is on the disk, if the file system supports that.
func (p *part) sync() error {
	err := p.file.Sync()
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	forget(p.file, p.last, p.dirty)
	p.dirty = 0
	return nil
}

// publish gives a part with all layers its header and its name. The record, which is right until then, is replaced
// last.
func (p *part) publish(path string) error {
	for _, at := range []int{recordBytes, 0} {
		head := p.y.head[at:]
		if at == 0 {
			head = head[:recordBytes]
		}
		if _, err := p.file.WriteAt(head, int64(at)); err != nil {
			return err
		}
		if err := p.sync(); err != nil {
			return err
		}
	}
	if runtime.GOOS == "windows" { // it renames no open file
		p.close()
	}
	if err := p.rename(path, runtime.GOOS == "windows"); err != nil {
		return err
	}
	p.close()
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // the name, too, is to survive a loss of power
		_ = dir.Sync()
		dir.Close()
	}
	return nil
}

// renames is the number of times that a part is renamed at most, where others that look at it prevent that.
const renames = 20

// rename gives a part its name. With shared, another process may have opened the part to see whether it can have it.
// That prevents renaming for a moment, or the other process has renamed it.
func (p *part) rename(path string, shared bool) error {
	for tries := 1; ; tries++ {
		err := os.Rename(p.path, path)
		if err == nil || !shared {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) {
			if done, failed := p.y.open(path); failed == nil {
				return done.Close()
			}
		}
		if tries == renames {
			return err
		}
		time.Sleep(patience / 4)
	}
}

// remove removes the part and ends its lock.
func (p *part) remove() {
	if runtime.GOOS == "windows" {
		p.close()
	}
	_ = os.Remove(p.path)
	p.close()
}

func (p *part) close() {
	if p.direct != nil {
		_ = p.direct.Close()
	}
	_ = p.file.Close()
}
