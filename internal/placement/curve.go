package placement

import "sort"

// curve is one layer on one GPU: the cost of each hot count.
type curve struct {
	y    *Layer
	gpu  int
	n    int
	hot  []float64 // [n+1] seconds of the first k units on the GPU, their start included
	cold []float64 // [n+1] seconds of the first k units in RAM; the units' own times never rise
	save []float64 // [n] seconds that unit k saves on the GPU if those before it are there

	coldStart float64 // seconds that units take to start in RAM, if there are any
	most      int     // the hot count beyond which more on the GPU makes the layer slower
}

// like is c for another layer of the same units.
func (c curve) like(y *Layer) curve {
	c.y = y
	return c
}

// same reports whether the units of two layers are the same ones, as in described models, where the layers share them.
func (u *Units) same(v *Units) bool {
	return u.Size == v.Size && u.Always == v.Always && u.Rows == v.Rows && u.InOrder == v.InOrder && u.Stay == v.Stay && len(u.Sometimes) == len(v.Sometimes) && len(u.Sometimes) > 0 && &u.Sometimes[0] == &v.Sometimes[0]
}

func newCurve(y *Layer, on *Machine, gpu int) curve {
	u, g, host := &y.Units, on.GPUs[gpu].speeds(), on.speeds()
	n := len(u.Sometimes)
	c := curve{y: y, gpu: gpu, n: n, hot: make([]float64, n+1), cold: make([]float64, n+1), save: make([]float64, n), coldStart: host.units(u).Start}
	var needed, every float64
	for i, b := range u.Sometimes {
		once, whole := u.step(b, 1, &g)
		needed, every = needed+once, every+whole
		c.hot[i+1], _ = g.faster(u, needed, every)
		c.cold[i+1] = c.cold[i] + u.seconds(b, &host) + on.stays(u, b)
	}
	for k := range c.save {
		c.save[k] = c.units(k) - c.units(k+1)
	}
	c.most = sort.Search(n, func(k int) bool { return c.onGPU(k) >= c.inRAM(k) })
	if c.most > 0 && c.save[c.most-1] <= 0 {
		c.most--
	}
	return c
}

// units returns the time of all units with k of them on the GPU.
func (c *curve) units(k int) float64 { return max(c.onGPU(k), c.inRAM(k)) }

// onGPU returns the time of the first k units on the GPU.
func (c *curve) onGPU(k int) float64 { return c.hot[k] }

// inRAM returns the time of the other units in RAM.
func (c *curve) inRAM(k int) float64 {
	if k == c.n {
		return 0
	}
	return c.coldStart + c.cold[c.n] - c.cold[k]
}

// worth returns how many units save at least price seconds a byte on the GPU; between 1 and most.
func (c *curve) worth(price float64) int { return c.worthIn(price, 1, c.most) }

// worthIn is worth if that is known to be from few to many.
func (c *curve) worthIn(price float64, few, many int) int {
	least := price * float64(c.y.Units.Size)
	return few + sort.Search(max(0, many-few), func(i int) bool { return c.save[few+i] < least })
}
