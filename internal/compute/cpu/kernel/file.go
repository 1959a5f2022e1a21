package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// fileTiles are one type's kernels of rows as files have them, in addition to its ways; nil where there are none.
// Products have the bits of packed rows.
type fileTiles struct {
	scatter scatterer
	pack    func(dst, src *byte, n, ahead uintptr) // n whole superblocks; memory is asked for ahead bytes before it is read
}

// fileKernels are a type's kernels of rows as files have them, in one instruction set. Near may be nil.
type fileKernels struct {
	near, far streamer
	scatter   scatterer
}

// takeFiles puts kernels of rows as files have them before those that k has. Far ones are usual where activations leave
// the first-level cache.
func (k *Kernels) takeFiles(isa string, kernels map[quant.Type]fileKernels) {
	near, far := "file-near-"+isa, "file-far-"+isa
	for t, f := range kernels {
		k.file[t].scatter = f.scatter
		ways, usual := []way{{name: far, stream: f.far}}, all(far)
		if f.near != nil {
			ways, usual[0] = append([]way{{name: near, stream: f.near}}, ways...), near
		}
		k.take(t, Mapped, append(ways, k.ways[t][Mapped].all...), usual)
	}
}

// PackRow is the function of this name, which defines it, by k's instructions.
func (k *Kernels) PackRow(t quant.Type, dst, src []byte, cols int) { k.packRow(t, dst, src, cols, 0) }

// packAhead is the prefetch distance of consecutive rows, in bytes. Streams have the same.
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

// MatMulFile is MatMul of weights in file layout. If no kernel reads the rows in that layout, as for several tokens, it
// packs them to scratch, as many at a time as fit. scratch has room for at least one row.
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
	if f := k.ways[t][Mapped].of(classOf(ActRow(cols))); f != nil && cols%quant.QKK == 0 && tokens == 1 {
		for r := 0; r < rows; {
			n := min(rows-r, max(1, streamBytes/size))
			f.stream(&out[r], &w[r*size], uintptr(size), (*byte)(x), uintptr(cols/quant.QKK), uintptr(n))
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
