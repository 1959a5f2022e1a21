package gemm

// panelRows is the number of rows that a panel of the left operand interleaves.
const panelRows = 8

// lines is an operand seen along the inner dimension k: the left operand's rows, the right operand's columns. Element
// k of line i lies at i·stride+k, or at k·stride+i where across.
type lines struct {
	data   []float32
	stride int
	across bool
}

// pack writes elements [k0, k0+depth) of n lines from line on to dst, as panels of width lines each: a panel holds, for
// each k, its lines' elements side by side. The last panel is filled with zeros.
func (s *kernels) pack(dst []float32, width int, l lines, line, n, k0, depth int) {
	if l.across {
		packAcross(dst, width, l, line, n, k0, depth)
		return
	}
	for at := 0; at < n; at += width {
		panel := dst[at*depth:][:width*depth]
		for i := 0; i < width; i += 8 {
			from := line + at + i
			if at+i+8 <= n {
				s.transpose(panel[i:], width, l.data[from*l.stride+k0:], l.stride, depth)
				continue
			}
			for j := i; j < i+8; j++ {
				if at+j < n {
					packLine(panel[j:], width, l.data[(line+at+j)*l.stride+k0:][:depth])
				} else {
					clearLine(panel[j:], width, depth)
				}
			}
		}
	}
}

// packAcross takes all panels at once, for the sake of the operand's pages.
func packAcross(dst []float32, width int, l lines, line, n, k0, depth int) {
	for k := range depth {
		src := l.data[(k0+k)*l.stride+line:][:n]
		for at := 0; at < n; at += width {
			row := dst[at*depth+k*width:][:width]
			if at+width > n {
				clear(row[copy(row, src[at:]):])
				continue
			}
			from := src[at:][:width]
			for i := 0; i+8 <= len(from); i += 8 {
				*(*[8]float32)(row[i:]) = *(*[8]float32)(from[i:])
			}
		}
	}
}

func packLine(dst []float32, width int, src []float32) {
	for k, v := range src {
		dst[k*width] = v
	}
}

func clearLine(dst []float32, width, depth int) {
	for k := range depth {
		dst[k*width] = 0
	}
}

// transposeGeneric writes columns of 8 rows as rows: dst[j][i] = src[i][j] for i < 8, j < n. Strides are in elements.
func transposeGeneric(dst []float32, dstStride int, src []float32, srcStride, n int) {
	for i := range 8 {
		packLine(dst[i:], dstStride, src[i*srcStride:][:n])
	}
}
