package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// attentionTried names a check.
type attentionTried struct {
	attentionKind
	attentionTile
}

func (a attentionTried) String() string {
	return fmt.Sprintf("%s are not used for %s in tiles of %d rows and %d positions", a.by, a.attentionKind, a.deep+a.tall, a.positions)
}

// canAttend says why prompts do not attend by a tile in layers of a kind; nil: they may. The first time it is tried,
// with a cache in F16.
func (d *Device) canAttend(k attentionKind, t attentionTile) error {
	k.halves = true
	a := attentionTried{k, t}
	err, tried := d.long.attended[a]
	if tried {
		return err
	}
	if err = d.checkAttention(k, t); err != nil {
		err = fmt.Errorf("%s: %w", a, err)
	}
	if d.long.attended == nil {
		d.long.attended = map[attentionTried]error{}
	}
	d.long.attended[a] = err
	return err
}

// attentionCase is attention with known queries, keys and values. Its rows are those of a sequence, from position from
// on, and then those of another sequence from its start. The first cut rows are of an earlier step.
type attentionCase struct {
	attentionKind
	rows, others, from, cut int
	kvHeads, group          int
}

// The case that a tile must compute correctly before it is used has more rows than a workgroup and not a multiple of
// that, and first rows that see positions of two chunks. The case that is timed is a usual prompt.
func checkedAttention(k attentionKind) attentionCase {
	return attentionCase{attentionKind: k, rows: 140, others: 9, from: chunkPositions - 30, kvHeads: 2, group: 2}
}

func timedAttention(k attentionKind) attentionCase {
	return attentionCase{attentionKind: k, rows: 512, from: chunkPositions, kvHeads: 8, group: 4}
}

const (
	// attendTolerance is the share of the largest value that halves of queries and exponentials may cost.
	attendTolerance = 2e-3
	attendValue     = 9
	attendSharp     = 20       // makes scores so different that few positions count
	attendBudget    = 64 << 20 // bytes
)

func attendKey(seq, head, p, i int) float32 { return float32((7*p+3*i+5*head+seq)%17-8) / 8 }
func attendElement(seq, head, p, i int) float32 {
	return float32((3*p+5*i+7*head+seq)%19 - attendValue)
}
func attendQuery(row, i int) float32 { return float32((5*row+11*i)%13-6) / 16 }
func attendSink(head int) float32    { return float32(head % 3) }
func attendSlope(head int) float32   { return 1 / float32(int(16)<<(head%4)) }

// knownAttention is an attentionCase on a device.
type knownAttention struct {
	attentionCase
	d      *Device
	p      compute.Params
	how    compute.Attention
	cache  *compute.Cache
	q, out compute.Tensor
}

// of returns the case by a tile, or the way of other rows, on a device of its own. The device's reset gives its memory
// back.
func (c attentionCase) of(d *Device, t ...attentionTile) (*knownAttention, error) {
	a := &knownAttention{attentionCase: c, d: d.apart(attendBudget), how: compute.Attention{Scale: float32(attendSharp / math.Sqrt(float64(c.key))), Later: c.later}}
	a.d.long.attention = map[attentionKind][]attentionTile{c.attentionKind: t}
	n, heads, pages := c.rows-c.cut+c.others, c.kvHeads*c.group, (c.from+c.rows)/compute.PagePositions+1
	a.p = compute.Params{Tokens: make([]int32, n), Pages: [][]int32{nil, {int32(pages)}}}
	for i := range int32(pages) {
		a.p.Pages[0] = append(a.p.Pages[0], int32(pages)-1-i)
	}
	for i := range n {
		if i += c.cut; i < c.rows {
			a.p.Seq, a.p.Pos = append(a.p.Seq, 0), append(a.p.Pos, int32(c.from+i))
		} else {
			a.p.Seq, a.p.Pos = append(a.p.Seq, 1), append(a.p.Pos, int32(i-c.rows))
		}
	}
	shape := compute.KVShape{Heads: c.kvHeads, Key: c.key, Value: c.value}
	var err error
	if a.cache, err = a.d.Cache(compute.CacheSpec{Layers: []compute.KVShape{shape}, Pages: pages + 1}); err != nil {
		return a, err
	}
	if err = a.d.fillCache(a.cache, a.p.Pages); err != nil {
		return a, err
	}
	if a.q, err = a.d.Tensor(n, heads*c.key); err != nil {
		return a, err
	}
	if a.out, err = a.d.Tensor(n, heads*c.value); err != nil {
		return a, err
	}
	for _, v := range []struct {
		has bool
		of  func(int) float32
		to  **compute.Vector
	}{{c.sinks, attendSink, &a.how.Sinks}, {c.slopes, attendSlope, &a.how.Slopes}} {
		if !v.has {
			continue
		}
		row := make([]float32, heads)
		for h := range row {
			row[h] = v.of(h)
		}
		data := make([]byte, 4*heads)
		quant.Encode(quant.F32, data, row)
		if *v.to, err = a.d.Vector(compute.Source{Name: "check", Type: quant.F32, Rows: 1, Cols: heads, Data: data}); err != nil {
			return a, err
		}
	}
	return a, a.d.upload(floats(a.q), 4*int64(heads*c.key), func(dst []byte, first int) {
		for i, to := 0, numbers(dst); i < len(to); i++ {
			to[i] = attendQuery(c.cut+first+i/(heads*c.key), i%(heads*c.key))
		}
	})
}

// run attends that many times.
func (a *knownAttention) run(times int) error {
	seg := compute.Segment{Name: fmt.Sprint("attention ", times, a.how.Window), Rows: len(a.p.Tokens)}
	return a.d.Run(seg, &a.p, func(v compute.Verbs) {
		for range times {
			v.Attend(a.out, a.q, a.cache, 0, a.how)
		}
	})
}

// checkAttention attends by a tile in layers of a kind, with and without a window and a cap of the scores, and compares
// with the definition. A prompt has the same bytes wherever it is cut.
func (d *Device) checkAttention(k attentionKind, t ...attentionTile) error {
	c := checkedAttention(k)
	whole, err := c.of(d, t...)
	defer whole.d.reset()
	if err != nil {
		return err
	}
	if err := whole.compare(); err != nil {
		return err
	}
	c.cut = 50
	rest, err := c.of(d, t...)
	defer rest.d.reset()
	if err != nil {
		return err
	}
	if err := rest.run(1); err != nil {
		return err
	}
	for row := range rest.p.Tokens {
		have, err := rest.d.Read(rest.out, row)
		if err != nil {
			return err
		}
		want, err := whole.d.Read(whole.out, c.cut+row)
		if err != nil {
			return err
		}
		for i := range want {
			if math.Float32bits(have[i]) != math.Float32bits(want[i]) {
				return fmt.Errorf("element %d of row %d is %g where a prompt is cut, and %g where it is not", i, c.cut+row, have[i], want[i])
			}
		}
	}
	whole.how.Window, whole.how.SoftCap = 200, 4
	return whole.compare()
}

// compare attends and compares some of the rows with the definition.
func (a *knownAttention) compare() error {
	if err := a.run(1); err != nil {
		return err
	}
	for row := 0; row < len(a.p.Tokens); row += 29 {
		have, err := a.d.Read(a.out, row)
		if err != nil {
			return err
		}
		for h := range a.kvHeads * a.group {
			for i, want := range a.attended(row, h) {
				if v := have[h*a.value+i]; !(math.Abs(float64(v)-want) <= attendTolerance*attendValue) {
					return fmt.Errorf("element %d of row %d of a known case is %g instead of %g", h*a.value+i, row, v, want)
				}
			}
		}
	}
	return nil
}

// fillCache writes the known case's keys and values.
func (d *Device) fillCache(c *compute.Cache, pages [][]int32) error {
	l := c.Layers[0]
	keys, values := cacheLayer(c, 0)
	for i, side := range sides(l) {
		view, element := keys, attendKey
		if i == 1 {
			view, element = values, attendElement
		}
		for seq, table := range pages {
			for j, page := range table {
				size := int64(l.Heads * side.pageBytes())
				err := d.upload(view.Slice(int64(page)*size, size), size, func(dst []byte, _ int) {
					row, numbers := make([]byte, side.rowBytes()), make([]float32, side.elements)
					for at := range l.Heads * compute.PagePositions {
						head, p := at/compute.PagePositions, at%compute.PagePositions
						for e := range numbers {
							numbers[e] = element(seq, head, j*compute.PagePositions+p, e)
						}
						quant.Encode(side.t.Type(), row, numbers)
						side.eachPiece(dst[head*side.pageBytes():][:side.pageBytes()], p, row, func(cached, outside []byte) { copy(cached, outside) })
					}
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// attended returns the result of a row's head by the definition.
func (a *knownAttention) attended(row, head int) []float64 {
	seq, kv := int(a.p.Seq[row]), head/a.group
	from, to := a.p.Span(row, &a.how, a.p.Last(a.p.Seq[row]))
	out, shares, top := make([]float64, a.value), make([]float64, to-from), math.Inf(-1)
	if a.sinks {
		top = float64(attendSink(head))
	}
	for j := range shares {
		s := 0.0
		for i := range a.key {
			s += float64(a.how.Scale) * float64(attendQuery(row, head*a.key+i)) * float64(attendKey(seq, kv, from+j, i))
		}
		if most := float64(a.how.SoftCap); most > 0 {
			s = most * math.Tanh(s/most)
		}
		if a.slopes {
			s -= float64(attendSlope(head)) * math.Abs(float64(int(a.p.Pos[row])-from-j))
		}
		shares[j] = s
		top = max(top, s)
	}
	sum := 0.0
	if a.sinks {
		sum = math.Exp(float64(attendSink(head)) - top)
	}
	for j := range shares {
		shares[j] = math.Exp(shares[j] - top)
		sum += shares[j]
	}
	for i := range out {
		for j, share := range shares {
			out[i] += share / sum * float64(attendElement(seq, kv, from+j, i))
		}
	}
	return out
}

// fastestAttention returns the fastest of some tiles for layers of a kind; the first where that cannot be kept.
func (d *Device) fastestAttention(k attentionKind, tiles []attentionTile) attentionTile {
	known := d.found()
	for _, t := range tiles {
		if t.String() == known.Found[k.String()] {
			return t
		}
	}
	if !d.chooses() {
		return tiles[0]
	}
	best, least := tiles[0], math.Inf(1)
	for _, t := range tiles {
		took, err := d.timeAttention(k, t)
		if err != nil {
			d.long.attended[attentionTried{k, t}] = fmt.Errorf("%s: %w", attentionTried{k, t}, err)
		} else if took < least {
			best, least = t, took
		}
	}
	known.keep(k.String(), best.String())
	return best
}

// timeAttention returns the seconds that a usual prompt's attention takes by a tile.
func (d *Device) timeAttention(k attentionKind, t attentionTile) (float64, error) {
	a, err := timedAttention(k).of(d, t)
	defer a.d.reset()
	if err != nil {
		return 0, err
	}
	const (
		passes  = 8
		repeats = 4 // the first one records
	)
	least := math.Inf(1)
	for range repeats {
		start := monotime.Now()
		if err := a.run(passes); err != nil {
			return 0, err
		}
		least = min(least, monotime.Since(start).Seconds()/passes)
	}
	return least, nil
}
