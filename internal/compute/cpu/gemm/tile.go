package gemm

import (
	"fmt"
	"strings"
	"unsafe"
)

// kernels is one instruction set's.
type kernels struct {
	name       string
	rows, cols int // of a tile; rows divide panelRows, cols are a multiple of 8 and divide chunkCols
	// tile computes c [rows, cols] = alpha·a·b, plus c where add is not 0; stride is c's, in bytes. a lies in rows of
	// panelRows, b in rows of cols; both have k > 0 of them.
	tile func(c *float32, stride uintptr, a, b *float32, k uintptr, alpha float32, add uintptr)
	// transpose writes columns of 8 rows as rows: dst[j][i] = src[i][j] for i < 8, j < n. Strides are in elements.
	transpose func(dst []float32, dstStride int, src []float32, srcStride, n int)
}

var generic = kernels{name: "generic", rows: genericRows, cols: genericCols, tile: tileGeneric, transpose: transposeGeneric}

// Names returns the kernel sets that this machine runs, fastest first.
func Names() []string {
	var names []string
	for _, s := range variants() {
		names = append(names, s.name)
	}
	return names
}

func variants() []*kernels { return append(platform(), &generic) }

func find(name string) (*kernels, error) {
	for _, s := range variants() {
		if name == "" || s.name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("matrix products %q do not run here; these do: %s", name, strings.Join(Names(), ", "))
}

const genericRows, genericCols = 4, 8

// tileGeneric is the scalar twin of every tile, but for the size of its own.
func tileGeneric(c *float32, stride uintptr, a, b *float32, k uintptr, alpha float32, add uintptr) {
	var acc [genericRows][genericCols]float32
	as := unsafe.Slice(a, int(k-1)*panelRows+genericRows)
	bs := unsafe.Slice(b, int(k)*genericCols)
	for l := range int(k) {
		x, w := (*[genericRows]float32)(as[l*panelRows:]), (*[genericCols]float32)(bs[l*genericCols:])
		for i := range acc {
			for j := range acc[i] {
				acc[i][j] += x[i] * w[j]
			}
		}
	}
	for i := range acc {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(c), uintptr(i)*stride)), genericCols)
		for j, s := range acc[i] {
			if add != 0 {
				row[j] += alpha * s
			} else {
				row[j] = alpha * s
			}
		}
	}
}
