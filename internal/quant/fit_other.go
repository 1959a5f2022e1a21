//go:build !amd64

package quant

// fitLanes returns how many blocks are fitted at once; here they are fitted one after the other.
func fitLanes() int { return 0 }

func (l *laneBlock) fitScales(*[scaleGrids]float32, float32, *lanes) { panic("quant: no vectors") }

func (l *laneBlock) minimumSums(*lanes, *lanes, float32, *lanes, *lanes, *lanes) {
	panic("quant: no vectors")
}

func (l *laneBlock) minimumError(*lanes, *lanes, float32, *lanes, *lanes, *lanes, bool) {
	panic("quant: no vectors")
}
