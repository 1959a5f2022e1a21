package kernel

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// fileTiles are one type's kernels of rows as files have them; nil where there are none. Products have the bits of packed rows.
type fileTiles struct {
	ways    []fileWay         // of one token and consecutive rows
	chosen  [Classes]*fileWay // by class
	scatter func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n, rows uintptr)
	pack    func(dst, src *byte, n, ahead uintptr) // n whole superblocks; memory is asked for ahead bytes before it is read
}

// fileWay is a way for rows in the file's layout. Its name is file-near or file-far, and the instructions.
type fileWay struct {
	name   string
	stream fileStream
}

// fileStream computes one token's products with consecutive rows. It keeps no pointer.
type fileStream func(out *float32, w *byte, rowBytes uintptr, x *byte, n, rows uintptr)

// fileKernels are a type's kernels of rows as files have them, in one instruction set.
type fileKernels struct {
	near, far fileStream
	scatter   func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n, rows uintptr)
}

// usualFile is near where activations stay in the first-level cache, and far where they leave it.
func usualFile(instructions string) [Classes]string {
	near, far := "file-near-"+instructions, "file-far-"+instructions
	return [Classes]string{near, far, far, far}
}

// takeFile gives type t ways of rows as files have them, before those that it has, and the usual one of each class.
func (k *Kernels) takeFile(t quant.Type, near, far fileStream, instructions string, usual [Classes]string) {
	f := &k.file[t]
	f.ways = append([]fileWay{{"file-near-" + instructions, near}, {"file-far-" + instructions, far}}, f.ways...)
	for c, name := range usual {
		if err := k.GoFile(t, Class(c), name); err != nil {
			panic(err)
		}
	}
}

// FileWays lists the names of the kernels that rows of type t may go by as files have them.
func (k *Kernels) FileWays(t quant.Type) []string {
	var names []string
	for _, w := range k.file[t].ways {
		names = append(names, w.name)
	}
	return names
}

// FileWay returns the name of the kernel that rows of type t and class c go by as files have them, "" where there is none.
func (k *Kernels) FileWay(t quant.Type, c Class) string {
	if w := k.file[t].chosen[c]; w != nil {
		return w.name
	}
	return ""
}

// GoFile has rows of type t and class c go by the named one of FileWays.
func (k *Kernels) GoFile(t quant.Type, c Class, name string) error {
	f := &k.file[t]
	i := slices.IndexFunc(f.ways, func(w fileWay) bool { return w.name == name })
	if i < 0 {
		return fmt.Errorf("%s has no kernel %q for rows in the file's layout; it has these: %q", t, name, k.FileWays(t))
	}
	f.chosen[c] = &f.ways[i]
	return nil
}

// rows returns the kernel of rows of cols elements, or nil.
func (f *fileTiles) rows(cols int) fileStream {
	if w := f.chosen[classOf(ActRow(cols))]; w != nil && cols%quant.QKK == 0 {
		return w.stream
	}
	return nil
}

// PackRow is the function of this name, which defines it, by k's instructions.
func (k *Kernels) PackRow(t quant.Type, dst, src []byte, cols int) { k.packRow(t, dst, src, cols, 0) }

// packAhead is the prefetch distance of consecutive rows, in bytes, as that of streams.
const packAhead = 8 << 10

func (k *Kernels) packRow(t quant.Type, dst, src []byte, cols int, ahead uintptr) {
	f := k.file[t].pack
	whole := cols / quant.QKK
	if f == nil || whole == 0 {
		PackRow(t, dst, src, cols)
		return
	}
	_, _ = dst[RowBytes(t, cols)-1], src[t.RowBytes(cols)-1]
	f(&dst[0], &src[0], uintptr(whole), ahead)
	if rest := cols % quant.QKK; rest > 0 {
		packSuper(t, dst[whole*layout.Of(t).Bytes:][:layout.Of(t).Bytes], src[t.RowBytes(whole*quant.QKK):t.RowBytes(cols)])
	}
}

// MatMulFile is MatMul of weights in file layout. Rows that no kernel takes as they are, those of several tokens among them, are packed
// to scratch, which has room for at least one, and as many as fit at a time.
func (k *Kernels) MatMulFile(t quant.Type, out []float32, outStride int, w []byte, rows, cols int, x unsafe.Pointer, xStride, tokens int, scratch []byte) {
	if rows == 0 || tokens == 0 {
		return
	}
	if !t.Quantised() {
		k.MatMul(t, out, outStride, w, rows, cols, x, xStride, tokens)
		return
	}
	size := t.RowBytes(cols)
	_, _ = w[rows*size-1], out[(tokens-1)*outStride+rows-1]
	if f := k.file[t].rows(cols); f != nil && tokens == 1 {
		for r := 0; r < rows; {
			n := min(rows-r, max(1, streamBytes/size))
			f(&out[r], &w[r*size], uintptr(size), (*byte)(x), uintptr(cols/quant.QKK), uintptr(n))
			r += n
		}
		return
	}
	packed := RowBytes(t, cols)
	for r := 0; r < rows; {
		n := min(rows-r, len(scratch)/packed)
		for i := range n {
			k.packRow(t, scratch[i*packed:][:packed], w[(r+i)*size:][:size], cols, packAhead)
		}
		k.MatMul(t, out[r:], outStride, scratch[:n*packed], n, cols, x, xStride, tokens)
		r += n
	}
}

// DotFileRows is DotRows of weights in file layout. scratch has room for a packed row.
func (k *Kernels) DotFileRows(t quant.Type, out []float32, w []byte, index []int32, cols int, x unsafe.Pointer, scratch []byte) {
	size := t.RowBytes(cols)
	_ = out[:len(index)]
	for _, r := range index {
		_ = w[int(r)*size:][:size]
	}
	f := k.file[t].scatter
	if f == nil || cols%quant.QKK != 0 {
		packed := scratch[:RowBytes(t, cols)]
		for i, r := range index {
			k.PackRow(t, packed, w[int(r)*size:][:size], cols)
			k.MatMul(t, out[i:i+1], 1, packed, 1, cols, x, 0, 1)
		}
		return
	}
	for done := 0; done < len(index); {
		n := min(len(index)-done, max(1, streamBytes/size))
		f(&out[done], &w[0], uintptr(size), &index[done], (*byte)(x), uintptr(cols/quant.QKK), uintptr(n))
		done += n
	}
}
