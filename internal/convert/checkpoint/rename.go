package checkpoint

import (
	"maps"
	"slices"
)

// Rename gives tensors other names. to returns the name of a tensor, which row of it stands for a row of the renamed
// one, nil where all stay, and whether it is kept.
func (c *Checkpoint) Rename(to func(t *Tensor) (name string, row func(int) int, kept bool)) error {
	all := c.Tensors
	c.Tensors = map[string]*Tensor{}
	for _, old := range slices.Sorted(maps.Keys(all)) {
		t := *all[old]
		name, row, kept := to(&t)
		if !kept {
			continue
		}
		t.Name = name
		if row != nil && len(t.Shape) > 0 && t.Shape[0] > 0 {
			stored := *all[old]
			t.Offset, t.file = 0, &shard{path: t.Path(), r: &rows{t: &stored, size: stored.Bytes / int64(stored.Shape[0]), row: row}}
		}
		if err := c.add(&t); err != nil {
			return err
		}
	}
	return nil
}

// rows reads a tensor in another order of rows.
type rows struct {
	t    *Tensor
	size int64 // bytes of a row
	row  func(int) int
}

// ReadAt implements io.ReaderAt.
func (r *rows) ReadAt(b []byte, offset int64) (int, error) {
	for done := int64(0); done < int64(len(b)); {
		at := offset + done
		row, in := at/r.size, at%r.size
		n := min(r.size-in, int64(len(b))-done)
		if err := r.t.ReadAt(b[done:done+n], int64(r.row(int(row)))*r.size+in); err != nil {
			return int(done), err
		}
		done += n
	}
	return len(b), nil
}
