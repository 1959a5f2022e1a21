package quant

// laneBlocks is the number of blocks that are fitted at once if the CPU has vectors: block j in lane j. Each lane takes
// the steps of fitScale or fitMinimum, in the same order, and gives the same bits.
const laneBlocks = 8

// lanes hold a number for each block.
type lanes [laneBlocks]float32

// laneBlock holds blocks side by side.
type laneBlock struct {
	n    int // elements of a block
	x, w [QK]lanes
}

// set lays eight blocks of equal size side by side.
func (l *laneBlock) set(x, w []float32) {
	l.n = len(x) / laneBlocks
	for i := range l.x[:l.n] {
		to, weights := &l.x[i], &l.w[i]
		for j := range to {
			to[j], weights[j] = x[j*l.n+i], w[j*l.n+i]
		}
	}
}

// scaleGrids is the number of grids that fitScale tries: the one with the largest element as the lowest whole number,
// and those on either side.
const scaleGrids = 1 + 2*scaleTries

// fitScaleLanes is fitScale for eight blocks.
func fitScaleLanes(d, x, w []float32, most float32) {
	var l laneBlock
	l.set(x, w)
	reach := [scaleGrids]float32{-most}
	for try := range scaleTries {
		reach[1+try] = -(most + scaleStep*float32(try-scaleTries))
		reach[1+scaleTries+try] = -(most + scaleStep*float32(try+1))
	}
	l.fitScales(&reach, most, (*lanes)(d))
}

// fitMinimumLanes is fitMinimum for eight blocks.
func fitMinimumLanes(d, m, x, w []float32, most float32, g grids) {
	var l laneBlock
	l.set(x, w)
	var low, top, span, sumW, sumX, inverse, q, qq, qx, scale, offset, e, least lanes
	for j := range low {
		part, weights := x[j*l.n:][:l.n], w[j*l.n:][:l.n]
		top[j] = part[0]
		for i, v := range part {
			low[j], top[j] = min(low[j], v), max(top[j], v)
			sumW[j] += weights[i]
			sumX[j] += float32(weights[i] * v)
		}
		d[j], m[j] = 0, -low[j]
		if span[j] = top[j] - low[j]; span[j] < negligible {
			span[j] = 0
			continue
		}
		inverse[j] = most / span[j]
		d[j] = span[j] / most
		scale[j], offset[j] = d[j], low[j]
	}
	l.minimumError(&low, &inverse, most, &scale, &offset, &least, g.absolute)
	for try := range g.tries {
		steps := g.first + g.step*float32(try) + most
		for j := range low {
			if span[j] > 0 {
				inverse[j] = steps / span[j]
			}
		}
		l.minimumSums(&low, &inverse, most, &q, &qq, &qx)
		var fits [laneBlocks]bool
		for j := range low {
			determinant := float32(sumW[j]*qq[j]) - float32(q[j]*q[j])
			if fits[j] = determinant > 0 && span[j] > 0; !fits[j] {
				scale[j], offset[j] = 0, 0
				continue
			}
			scale[j] = (float32(sumW[j]*qx[j]) - float32(sumX[j]*q[j])) / determinant
			if offset[j] = (float32(qq[j]*sumX[j]) - float32(q[j]*qx[j])) / determinant; offset[j] > 0 {
				scale[j], offset[j] = qx[j]/qq[j], 0
			}
		}
		l.minimumError(&low, &inverse, most, &scale, &offset, &e, g.absolute)
		for j := range low {
			if fits[j] && e[j] < least[j] {
				least[j], d[j], m[j] = e[j], scale[j], -offset[j]
				low[j], span[j] = offset[j], top[j]-offset[j] // later grids begin where the best one does
			}
		}
	}
}
