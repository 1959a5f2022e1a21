package driver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// cacheLimit bounds the bytes of compiled pipelines that are read from disk.
const cacheLimit = 64 << 20

// File returns the cache's path.
func (p *Pipelines) File() string { return p.Beside("pipelines", ".bin") }

// Beside returns the path of a file in the cache's folder; empty: there is none. A driver's update or another device has
// another one.
func (p *Pipelines) Beside(name, ext string) string {
	if p.folder == "" {
		return ""
	}
	i := p.g.identity
	return filepath.Join(p.folder, fmt.Sprintf("%s-%08x-%08x-%08x-%x%s", name, i.vendor, i.device, i.driver, i.uuid, ext))
}

// load starts with the pipelines that an earlier process compiled. It ignores an incomplete file, which is written
// again in the end: drivers are known to crash on damaged data.
func (p *Pipelines) load() error {
	info := &vk.PipelineCacheCreateInfo{SType: vk.StructureTypePipelineCacheCreateInfo}
	data := p.Read()
	if len(data) > 0 {
		defer Pinned(&data[0])()
		info.InitialDataSize, info.PInitialData = uintptr(len(data)), unsafe.Pointer(&data[0])
	}
	var err error
	if p.cache, err = p.g.VK.CreatePipelineCache(info); err != nil && len(data) > 0 {
		p.cache, err = p.g.VK.CreatePipelineCache(&vk.PipelineCacheCreateInfo{SType: vk.StructureTypePipelineCacheCreateInfo})
	}
	if err != nil {
		return fmt.Errorf("cache of pipelines on %s: %w", p.g.Info.Name, err)
	}
	return nil
}

// Read returns the file's data after the checksum, or nothing.
func (p *Pipelines) Read() []byte {
	if p.folder == "" {
		return nil
	}
	if s, err := os.Stat(p.File()); err != nil || s.Size() > cacheLimit || s.Size() <= sha256.Size {
		return nil
	}
	all, err := os.ReadFile(p.File())
	if err != nil || len(all) <= sha256.Size {
		return nil
	}
	if sum := sha256.Sum256(all[sha256.Size:]); string(sum[:]) != string(all[:sha256.Size]) {
		return nil
	}
	return all[sha256.Size:]
}

// Save writes the cache if something was compiled since. Without it everything works, only later: an error ends
// nothing.
func (p *Pipelines) Save() {
	p.mu.Lock()
	made := p.kept
	p.mu.Unlock()
	if p.folder == "" || made == p.saved || p.g.Lost != nil {
		return
	}
	p.saved = made
	data, err := p.g.VK.PipelineCacheData(p.cache)
	if err != nil || len(data) == 0 || len(data) > cacheLimit-sha256.Size {
		return
	}
	sum := sha256.Sum256(data)
	_ = replace(p.File(), append(sum[:], data...))
}

// replace puts a file in place whole, and makes its folder.
func replace(path string, data []byte) error {
	folder, name := filepath.Split(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, name+"-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
