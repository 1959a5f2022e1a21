package placement

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Tier is what a plan leaves on the disk, and what a token then reads from there.
type Tier struct {
	Bytes int64   // bytes of units that do not fit in RAM
	Kept  int64   // bytes of RAM for the most used units
	Hits  float64 // share of uses that find their unit in RAM, of units that are on no GPU
	Units float64 // that a token reads
	Read  float64 // bytes that a token reads, wrong guesses included
	Lacks int64   // bytes that RAM lacks for what cannot stay on the disk; if it is above 0, the plan does not fit

	edge float64 // share of tokens that use the unit which is the first to find no room in RAM
}

// fromDisk moves units that RAM has no room for from RAM to the disk: it sets p's tier, and its layers' bytes and times.
func (p *Plan) fromDisk(m *Model, on *Machine) {
	if !(on.Disk.Read > 0) {
		return
	}
	room, stay, n := on.RAM, int64(0), 0
	for l := range p.Layers {
		y, u := &p.Layers[l], &m.layer(l).Units
		units := 0
		if u.Stay {
			units = len(u.Sometimes) - y.Bound
		}
		stay += u.stay() * int64(units)
		room -= y.RAM - u.stay()*int64(units)
		n += units
	}
	if room < 0 {
		p.Disk.Lacks, room = -room, 0
	}
	if stay <= room {
		return
	}
	d := &p.Disk
	part := float64(room) / float64(stay)
	d.Kept, d.Bytes = room, stay-room
	every := n/mostShares + 1
	assumed := false
	var shares []float64
	for l := range p.Layers {
		if u := &m.layer(l).Units; u.Stay {
			shares = append(shares, u.shares(p.Layers[l].Bound, every)...)
			assumed = assumed || u.Kept != nil
		}
	}
	slots := int(part * float64(len(shares)))
	if d.Hits = residency.Predict(slots, shares); assumed {
		d.Hits = largest(shares, slots)
	}
	d.edge = marginal(shares, slots)
	for l := range p.Layers {
		y, u := &p.Layers[l], &m.layer(l).Units
		if !u.Stay || y.Bound == len(u.Sometimes) {
			continue
		}
		uses := u.uses(y.Bound)
		misses := uses * (1 - d.Hits) * (1 - u.Left)
		right, wrong := on.guesses(u, y.Dense, y.ColdTime, uses, misses)
		y.ColdTime = on.waits(u, y.ColdTime+(right+wrong)*on.packing(u), uses, misses-right)
		y.Disk = int64((1 - part) * float64(u.stay()*int64(len(u.Sometimes)-y.Bound)))
		y.RAM -= y.Disk
		y.ReadDisk = (misses + wrong) * float64(u.stay())
		d.Units += misses + wrong
		d.Read += y.ReadDisk
	}
}

// largest returns the share of uses of the most used units, one for each of slots. shares already reflect that a cache
// does not know them in advance.
func largest(shares []float64, slots int) float64 {
	sorted := slices.Clone(shares)
	slices.Sort(sorted)
	all, held := 0.0, 0.0
	for i, s := range sorted {
		if all += s; i >= len(sorted)-slots {
			held += s
		}
	}
	if all == 0 {
		return 0
	}
	return held / all
}

// marginal returns the share of tokens that use the unit which is the first to find no slot.
func marginal(shares []float64, slots int) float64 {
	sorted := slices.Clone(shares)
	slices.Sort(sorted)
	if i := len(sorted) - 1 - slots; i >= 0 {
		return sorted[i]
	}
	return 0
}

// shares returns the shares of tokens that use each unit from unit first on; these are on no GPU. They come from Kept,
// Used or Sometimes. Kept is for all units of a layer, so it is stretched over the units that are left, unless GPUs have
// those used most. Of every few units, as every says, the middle one is returned.
func (u *Units) shares(first, every int) (list []float64) {
	for i := every / 2; i < len(u.Sometimes)-first; i += every {
		list = append(list, u.share(first, i))
	}
	return list
}

// uses returns the sum of all shares from unit first on.
func (u *Units) uses(first int) (sum float64) {
	for i := range len(u.Sometimes) - first {
		sum += u.share(first, i)
	}
	return sum
}

// share returns the share of tokens that use unit first+i.
func (u *Units) share(first, i int) float64 {
	switch n := len(u.Sometimes); {
	case u.Kept != nil && !u.Follow:
		return u.Kept[i*n/(n-first)]
	case u.Kept != nil:
		return u.Kept[first+i]
	case u.Used != nil:
		return u.Used[first+i]
	}
	return min(1, u.Sometimes[first+i]/float64(max(1, u.Size-u.Always)))
}

// mostShares is about the number of units that hits are predicted by, at most: the others of a layer's neurons are used
// like their neighbours.
const mostShares = 20000

// passes is the number of times that the bytes of a unit from the disk pass over RAM's bus before the unit is computed: the
// disk writes them, and the CPU reads them and writes them packed.
const passes = 3

// packing returns the time that RAM's bus needs to take a unit in, in seconds. Computing needs the bus, too.
func (on *Machine) packing(u *Units) float64 { return passes * float64(u.stay()) / on.Stream }

// waits returns the time of a layer's units outside GPUs, in seconds: computing all of them takes cold seconds, a token
// uses uses of them, and on average missing of these are not in RAM.
//
// The missing units of a layer are requested together when the layer begins. They arrive at the disk's rate after the
// time of a single read, and are packed as they arrive. Experts in RAM are computed meanwhile, the others when all are
// there. The number of missing units varies from token to token (binomially). A layer without missing units does not
// wait:
//
//	layer = Σ_k P(k) · (max(cold·(n−k)/n + k·pack, start + k·size/read) + cold·k/n)    k of n experts are missing; cold for k = 0
//
// Neurons are computed when all are there, so the two times add up. A GPU computes its units of the layer meanwhile
// (Price). Predicted units that arrive before the layer begins are no longer missing, see guesses.
func (on *Machine) waits(u *Units, cold, uses, missing float64) float64 {
	n := math.Ceil(uses - 1e-9)
	if n <= 0 || missing <= 0 {
		return cold
	}
	p, read, pack := min(1, missing/n), float64(u.stay())/on.Disk.Read, on.packing(u)
	if !u.InOrder {
		return cold + (1-math.Pow(1-p, n))*on.Disk.Start + missing*max(read, pack)
	}
	time := 0.0
	for k := range int(n) + 1 {
		late, reads := float64(k)/n, 0.0
		if k > 0 {
			reads = on.Disk.Start + float64(k)*read
		}
		time += binomial(int(n), k, p) * (max(cold*(1-late)+float64(k)*pack, reads) + cold*late)
	}
	return time
}

// Effects of predicting the next layer's experts, if 70 % of the predictions are right, as is usual for routing. Before
// their layer begins, they bring guessedRight of the units that RAM lacks, and in addition guessedWrong as many that
// are not needed. Both come from the simulation in docs/benchmarks/2026-11-cache-simulated.md, with favourites that
// stay. They bring more if favourites change.
const (
	guessedRight = 0.36
	guessedWrong = 0.28
)

// guesses returns how many of a layer's missing experts are read before it begins, and how many others, limited by the
// disk's time: predictions are read while nothing urgent is, in dense seconds and while experts in RAM are computed.
func (on *Machine) guesses(u *Units, dense, cold, uses, missing float64) (right, wrong float64) {
	if !u.Guessed || missing <= 0 {
		return 0, 0
	}
	read := missing * float64(u.stay()) / on.Disk.Read
	idle := dense + max(0, on.waits(u, cold, uses, missing)-read)
	part := min(1, idle/((guessedRight+guessedWrong)*read))
	return guessedRight * part * missing, guessedWrong * part * missing
}

// binomial returns the probability that k of n happen, each with probability p.
func binomial(n, k int, p float64) float64 {
	if p >= 1 {
		return float64(k / n) // all do
	}
	gamma := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return math.Exp(gamma(n) - gamma(k) - gamma(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// stay returns the bytes of a unit that may stay on the disk; weights that every token reads are in RAM.
func (u *Units) stay() int64 {
	if !u.Stay {
		return 0
	}
	return u.Size - u.Always
}

// dear returns the price of a byte in RAM, in seconds of a token, if units stay on the disk: the time of reading a byte of
// the unit that is the first to find no slot, times the share of tokens that use this unit. If RAM lacks bytes, the price
// is higher than on's.
func (p *Plan) dear(on *Machine) float64 {
	switch {
	case p.Disk.Lacks > 0:
		return max(1/on.Disk.Read, 4*on.dear)
	case p.Disk.Bytes > 0:
		return p.Disk.edge / on.Disk.Read
	}
	return 0
}

// stays returns what a unit on no GPU costs a token, in seconds, in addition to its time in RAM. A token reads b bytes
// of it beyond Always. The unit either takes a slot from another one or is read from the disk; the cheaper cost counts.
func (on *Machine) stays(u *Units, b float64) float64 {
	slot := on.dear * float64(u.Size)
	if u.Stay && on.dear > 0 {
		return on.dear*float64(u.Always) + min(on.dear*float64(u.stay()), b/on.Disk.Read)
	}
	return slot
}
