package cpu

import (
	"slices"
	"time"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Values of Options.Kernels other than the names of kernels.
const (
	KernelsAuto  = "auto"  // the fastest is measured when weights are loaded
	KernelsUsual = "usual" // the fastest on the machines that the kernels were written on
)

// Bounds of the measuring. A piece is what one call computes: from memory it takes some 50 µs a core.
const (
	tuneBytes  = 16 << 20  // least bytes of weights that share a choice: fewer may be in caches, and would gain little
	tunePiece  = 256 << 10 // bytes of a piece
	tuneRounds = 7
	tuneUneven = 2                     // a round with this multiple of the best time shows that other programs are busy
	tuneBusy   = 28                    // rounds at most on a busy machine, so that some are undisturbed
	tuneDuels  = 15                    // duels at most
	tuneAhead  = 3                     // lead at which a duel of kernels ends
	tuneTime   = 12 * time.Millisecond // for the rounds of one choice, on a machine that is too busy for all
	tuneGain   = 1.05                  // factor over the usual kernel's speed: a smaller gain is chance
	tuneStride = 8                     // one of tuneStride rows is read when scattered rows are timed
)

// tuner chooses the kernels of one token's products by measuring. All of its kernels give the same bytes.
type tuner struct {
	kernels string
	note    func(line string)
	shapes  []*tuneShape
	choices []Choice
}

// Choices returns the choices made by measuring.
func (d *Device) Choices() []Choice { return d.tuner.choices }

// tuneShape is weights that share a choice: of one type, in one order, with rows of one class.
type tuneShape struct {
	k        *kernel.Kernels // that multiply them
	t        quant.Type
	order    kernel.Order
	class    kernel.Class
	matrices []*compute.Matrix
	bytes    int
	at, row  int // the matrix and the row that are measured next
	turn     int // how often all were measured
}

// add adds a matrix to the weights that share its choice. The rows of neurons may be read in any selection.
func (u *tuner) add(m *compute.Matrix) {
	order := kernel.Consecutive
	switch {
	case mem(m).layout == neurons:
		order = kernel.Scattered
	case !mem(m).packed:
		if m.Cols%quant.QKK != 0 {
			return // such rows are packed first
		}
		order = kernel.Mapped
	}
	k := mem(m).k
	class := k.ClassOf(m.Type, order, m.Cols)
	i := slices.IndexFunc(u.shapes, func(s *tuneShape) bool { return s.k == k && s.t == m.Type && s.order == order && s.class == class })
	if i < 0 {
		i = len(u.shapes)
		u.shapes = append(u.shapes, &tuneShape{k: k, t: m.Type, order: order, class: class})
	}
	s := u.shapes[i]
	s.matrices = append(s.matrices, m)
	s.bytes += len(mem(m).data)
}

// Tune chooses the kernels of the weights loaded so far. It takes some milliseconds, or no time if there are few
// weights.
func (d *Device) Tune() {
	for _, s := range d.tuner.shapes {
		names := s.k.Ways(s.t, s.order)
		switch asked := d.tuner.kernels; {
		case asked == KernelsUsual:
		case asked != KernelsAuto:
			if slices.Contains(names, asked) {
				s.goes(asked)
			}
		case s.bytes >= tuneBytes && len(names) > 1:
			d.tuneWays(s, names)
		}
	}
	d.tuner.shapes = nil
}

// goes makes a shape's products use the named kernel, which must be available for the shape.
func (s *tuneShape) goes(name string) {
	if err := s.k.Go(s.t, s.order, s.class, name); err != nil {
		panic(err)
	}
}

// tuneWays times kernels in turn, each on weights that none read just before. A busy machine disturbs best rounds the
// least, so the kernel with the fastest one is the usual kernel's rival, and is chosen if it is tuneGain times as fast
// and ahead in duels.
func (d *Device) tuneWays(s *tuneShape, names []string) {
	begin, usual := monotime.Now(), s.k.Way(s.t, s.order, s.class)
	best := make([]time.Duration, len(names))
	slowest := time.Duration(0) // round of the usual kernel
	at := slices.Index(names, usual)
	run := func(i int) time.Duration {
		s.goes(names[i])
		took := d.timed(s)
		if best[i] == 0 || took < best[i] {
			best[i] = took
		}
		return took
	}
	busy := func() bool { return slowest > tuneUneven*best[at] }
	d.timed(s) // wakes the workers
	rounds := 0
	for rounds < 2 || monotime.Since(begin) < tuneTime && (rounds < tuneRounds || busy() && rounds < tuneBusy) {
		for i := range names {
			if took := run(i); i == at {
				slowest = max(slowest, took)
			}
		}
		rounds++
	}
	rival := slices.Index(best, slices.Min(best))
	var fought duels
	for rival != at && fought.won+fought.lost < tuneDuels && max(fought.ahead(), -fought.ahead()) < tuneAhead {
		if u := run(at); run(rival) < u {
			fought.won++
		} else {
			fought.lost++
		}
	}
	c := Choice{Type: s.t, Order: s.order, Cols: s.matrices[0].Cols, Usual: usual, Rounds: rounds, Busy: busy(), Took: monotime.Since(begin)}
	for i, name := range names {
		c.Speeds = append(c.Speeds, KernelSpeed{name, tunePiece / best[i].Seconds()})
	}
	c.decide(names[rival], fought)
	s.goes(c.Kernel)
	d.chose(c)
}

// chose keeps a choice and reports it.
func (d *Device) chose(c Choice) {
	d.tuner.choices = append(d.tuner.choices, c)
	if d.tuner.note != nil {
		d.tuner.note(c.String())
	}
}

// zeros returns n bytes of activations. It writes them, because all pages of memory that was only read are the system's
// one zero page. The first-level cache of AMD's processors keeps a line under one of its addresses at a time, so
// activations in several such pages would be read at half their speed.
func zeros(n int) []byte {
	x := make([]byte, n+cacheLine)
	clear(x)
	return x[aligned(x):][:n]
}

// timed computes one token's products with the next pieces of a shape's weights, on all threads, and returns how long a
// piece took.
func (d *Device) timed(s *tuneShape) time.Duration {
	if s.order == kernel.Scattered {
		return d.timedScattered(s)
	}
	m, row, rows := s.next(2 * d.decode.Threads())
	w := mem(m)
	x := zeros(s.k.Form(m.Type).ActRow(m.Cols))
	out := make([]float32, rows)
	return d.timedRows(rows, w.rowBytes, func(from, to, worker int) {
		d.multiply(m, w.data[(row+from)*w.rowBytes:(row+to)*w.rowBytes], to-from, out[from:to], to-from, unsafe.Pointer(unsafe.SliceData(x)), 0, 1, worker)
	})
}

// timedScattered is timed of one of each tuneStride rows: at unlike distances, and another one in each turn, which no
// cache has yet.
func (d *Device) timedScattered(s *tuneShape) time.Duration {
	m, row, rows := s.next(2 * d.decode.Threads() * tuneStride)
	w := mem(m)
	x := zeros(s.k.Form(m.Type).ActRow(m.Cols))
	index := make([]int32, rows/tuneStride)
	for i := range index {
		index[i] = int32(row + i*tuneStride + (i*i+s.turn)%tuneStride)
	}
	out := make([]float32, len(index))
	return d.timedRows(len(index), w.rowBytes, func(from, to, _ int) {
		s.k.DotRows(m.Type, out[from:to], w.data, index[from:to], m.Cols, unsafe.Pointer(unsafe.SliceData(x)))
	})
}

// timedRows makes all threads compute the given number of rows, a piece at a time, and returns the time of a piece.
func (d *Device) timedRows(rows, rowBytes int, compute func(from, to, worker int)) time.Duration {
	chunk := max(1, tunePiece/rowBytes)
	begin := monotime.Now()
	d.decode.Run((rows+chunk-1)/chunk, func(c, worker int) { compute(c*chunk, min(rows, (c+1)*chunk), worker) })
	return max(time.Duration(float64(monotime.Since(begin))*tunePiece/float64(max(1, rows)*rowBytes)), 1)
}

// next returns the next rows of the shape's weights: pieces pieces, or a whole matrix that has fewer. It skips the
// remainder at a matrix's end, because a part of a piece has another speed.
func (s *tuneShape) next(pieces int) (m *compute.Matrix, row, rows int) {
	m = s.matrices[s.at]
	row = s.row
	rows = min(m.Rows, max(1, pieces*tunePiece/mem(m).rowBytes))
	if s.row += rows; s.row+rows > m.Rows {
		if s.at, s.row = s.at+1, 0; s.at == len(s.matrices) {
			s.at = 0
			s.turn++
		}
	}
	return m, row, rows
}
