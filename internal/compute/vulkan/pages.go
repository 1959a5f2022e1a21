package vulkan

import (
	"cmp"
	"encoding/binary"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Mark implements hybrid.Recorder: it is the number of the command buffer in recording.
func (r *recorder) Mark() uint64 { return r.seg.commands + 1 }

// After makes the host call f once command buffer number mark has run.
func (r *recorder) After(mark uint64, f func(p *compute.Params) error) {
	r.ahead(f, mark, 0)
	r.hosts++
	r.begin()
}

// ahead ends a leg. At its end the host has a turn that waits only for a command and a copy of the segment; 0: none.
func (r *recorder) ahead(host func(p *compute.Params) error, command, copied uint64) {
	l := leg{command: r.command(), host: host, fed: true, needs: command, brought: copied}
	l.copies, l.after = r.endCopies()
	r.earlier = r.seg.commands
	r.seg.legs = append(r.seg.legs, l)
	r.late = true // the next turn that waits for everything finds what this leg has shown
}

// passageBytes bounds the host memory that pages pass through. What has more passes in several rounds.
const passageBytes = 64 << 20

// UploadPages implements hybrid.Recorder. The commands that copy the pages are rewritten in every run.
func (r *recorder) UploadPages(c *compute.Cache, find func(p *compute.Params) []int32, read func(page int32, scratch []byte) error) {
	d, page := r.d, c.Layers[0].PageBytes()
	each := int(max(1, min(cmp.Or(d.passing, passageBytes)/page, int64(c.PagesOf(0))))) // pages of a round
	if size := int64(each) * page; d.passage.Size < size {
		v, err := d.mem.Alloc(driver.Staged, size)
		if err != nil {
			r.fail(err)
			return
		}
		d.passage = v
	}
	r.flush()
	var pages []int32 // that are left
	for round := range ceil(c.PagesOf(0), each) {
		if r.err != nil {
			return
		}
		r.passPages(c, func(p *compute.Params) []int32 {
			if round == 0 {
				pages = find(p)
			}
			some := pages[:min(each, len(pages))]
			pages = pages[len(some):]
			return some
		}, read)
	}
}

// passPages records one round of UploadPages.
func (r *recorder) passPages(c *compute.Cache, some func(p *compute.Params) []int32, read func(page int32, scratch []byte) error) {
	d, shape, from := r.d, c.Layers[0], r.d.passage
	command, err := d.gpu.VK.AllocateCommandBuffer(d.gpu.Pool)
	if err != nil {
		r.fail(d.gpu.Fail(err))
		return
	}
	r.ahead(func(p *compute.Params) error {
		pages := some(p)
		if err := d.stagePages(shape, from, pages, read); err != nil {
			return err
		}
		w := &recorder{d: d}
		w.beginWith(command)
		w.filled = true
		keys, values := cacheLayer(c, 0)
		k, v := sideBytes(shape)
		for i, page := range pages {
			staged := from.Slice(int64(i)*(k+v), k+v)
			w.copy(keys.Slice(int64(page)*k, k), staged.Slice(0, k))
			if v > 0 {
				w.copy(values.Slice(int64(page)*v, v), staged.Slice(k, v))
			}
		}
		w.end()
		return w.err
	}, r.passed, 0)
	r.seg.commands++
	r.passed = r.seg.commands
	r.seg.legs = append(r.seg.legs, leg{command: driver.Command{Buffer: command, Copies: r.awaits}})
	r.earlier = r.seg.commands
	r.begin()
}

// stagePages writes pages one after the other to memory, in the layout of cache.
func (d *Device) stagePages(shape compute.KVShape, to driver.View, pages []int32, read func(page int32, scratch []byte) error) error {
	var failed error
	var once sync.Once
	size := int(shape.PageBytes())
	inParallel(len(pages), func(from, end int) {
		file := make([]byte, size)
		for i := from; i < end; i++ {
			if err := read(pages[i], file); err != nil {
				once.Do(func() { failed = err })
				return
			}
			stagePage(shape, to.Slice(int64(i*size), int64(size)).Host(), file)
		}
	})
	return failed
}

// stagePage writes a whole page, in file as ReadPage returns it, to memory in the layout of cache.
func stagePage(shape compute.KVShape, memory, file []byte) {
	const positions = compute.PagePositions
	for _, side := range sides(shape) {
		size := side.rowBytes()
		for h := range shape.Heads {
			head := memory[h*side.pageBytes():][:side.pageBytes()]
			row := func(pos int) []byte { return file[(pos*shape.Heads+h)*size:][:size] }
			blocks, _ := side.blocks()
			switch {
			case blocks > 0:
				for pos := range positions {
					side.eachPiece(head, pos, row(pos), func(cached, outside []byte) { copy(cached, outside) })
				}
			case !side.across:
				for pos := range positions {
					copy(head[pos*size:], row(pos))
				}
			default:
				for word := range side.words() {
					line := head[4*word*positions:][:4*positions]
					for pos := range positions {
						binary.LittleEndian.PutUint32(line[4*pos:], binary.LittleEndian.Uint32(row(pos)[4*word:]))
					}
				}
			}
		}
		memory, file = memory[shape.Heads*side.pageBytes():], file[positions*shape.Heads*size:]
	}
}
