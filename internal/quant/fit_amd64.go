package quant

//go:generate go -C ../../gen run ./fit -out ../internal/quant/fit_amd64.s -stubs ../internal/quant/fit_stub_amd64.go -pkg quant

import "golang.org/x/sys/cpu"

// fitLanes returns how many blocks are fitted at once, one in each lane of a vector; 0: the CPU has no such vectors.
func fitLanes() int {
	if cpu.X86.HasAVX2 {
		return laneBlocks
	}
	return 0
}

func (l *laneBlock) fitScales(reach *[scaleGrids]float32, most float32, d *lanes) {
	fitScalesAVX2(&l.x[0][0], &l.w[0][0], uintptr(l.n), &reach[0], scaleGrids-1, -most, most-1, negligible, &d[0])
}

func (l *laneBlock) minimumSums(low, inverse *lanes, most float32, q, qq, qx *lanes) {
	minimumSumsAVX2(&l.x[0][0], &l.w[0][0], uintptr(l.n), &low[0], &inverse[0], most, &q[0], &qq[0], &qx[0])
}

func (l *laneBlock) minimumError(low, inverse *lanes, most float32, scale, offset, sum *lanes, absolute bool) {
	if absolute {
		minimumMagnitudeAVX2(&l.x[0][0], &l.w[0][0], uintptr(l.n), &low[0], &inverse[0], most, &scale[0], &offset[0], &sum[0])
		return
	}
	minimumErrorAVX2(&l.x[0][0], &l.w[0][0], uintptr(l.n), &low[0], &inverse[0], most, &scale[0], &offset[0], &sum[0])
}
