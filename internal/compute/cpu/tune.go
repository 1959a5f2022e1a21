package cpu

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Values of Options.Kernels other than the names of kernels.
const (
	KernelsAuto  = "auto"  // what is fastest is measured when weights are loaded
	KernelsUsual = "usual" // what was the fastest where the kernels were written
)

// Bounds of the measuring. A piece is what one call computes: from memory it takes some 50 µs a core.
const (
	tuneBytes  = 16 << 20  // of weights that go one way: fewer may lie in caches, and a choice would not show
	tunePiece  = 256 << 10 // bytes of a piece
	tuneRounds = 7
	tuneUneven = 2                     // a round that takes so many times the best shows that other programs are busy
	tuneBusy   = 28                    // rounds at most on a busy machine, so that some are undisturbed
	tuneDuels  = 15                    // at most
	tuneAhead  = 3                     // duels end when one kernel has won so many more than the other
	tuneTime   = 12 * time.Millisecond // for the weights that go one way, on a machine that is too busy for all rounds
	tuneGain   = 0.95                  // of the usual kernel's time: less of a gain is chance
	tuneStride = 8                     // of scattered rows that are timed every so many-th is read
)

// tuner chooses, by measuring, the kernels of one token's products with consecutive rows, and with rows chosen by index. All that it chooses from give the
// same bytes.
type tuner struct {
	kernels string
	note    func(line string)
	shapes  []*tuneShape
	choices []Choice
}

// Choice is the kernel that Tune chose by measuring for weights of one type whose rows are about equally long.
type Choice struct {
	Type quant.Type
	// Scattered: of rows chosen by index, of any length
	Scattered bool
	Mapped    bool          // of rows as the file has them
	Prompts   bool          // of many tokens, by tiles of the processor's matrix unit or by vectors
	Cols      int           // elements of a row of the first of the weights
	Kernel    string        // the chosen one
	Usual     string        // the one that is taken without measuring, and where no other is clearly faster
	Speeds    []KernelSpeed // of all kernels there are, as measured
	Rounds    int           // each was measured in
	Busy      bool          // times were so uneven that other programs must have been busy
	Took      time.Duration // for the choice
}

// KernelSpeed is a kernel's speed in bytes of weights a second, with all threads; of prompts in bytes times tokens, with one.
type KernelSpeed struct {
	Kernel string
	Speed  float64
}

// Speed returns the speed of the kernel of that name; 0: it was not measured.
func (c *Choice) Speed(kernel string) float64 {
	for _, s := range c.Speeds {
		if s.Kernel == kernel {
			return s.Speed
		}
	}
	return 0
}

func (c *Choice) String() string {
	if c.Prompts {
		return fmt.Sprintf("prompts in %s, rows of %d elements: %s; tiles take %.2f of the time of vectors", c.Type, c.Cols, c.Kernel, c.Speed(byVectors)/c.Speed(byTiles))
	}
	rows := "rows"
	switch {
	case c.Scattered:
		rows = "scattered rows"
	case c.Mapped:
		rows = "mapped rows"
	}
	busy := ""
	if c.Busy {
		busy = ", other programs were busy"
	}
	return fmt.Sprintf("kernel of %s, %s of %d elements: %s; %.2f of the time of %s, the usual one (%d rounds, %.1f ms%s)",
		c.Type, rows, c.Cols, c.Kernel, c.Speed(c.Usual)/c.Speed(c.Kernel), c.Usual, c.Rounds, float64(c.Took.Microseconds())/1e3, busy)
}

// Choices returns what Tune chose by measuring.
func (d *Device) Choices() []Choice { return d.tuner.choices }

// TunableTypes returns the types of weights that this machine has several kernels for; scattered: of rows chosen by index.
func TunableTypes(scattered bool) []quant.Type {
	k := kernel.Variants()[0]
	names := k.Ways
	if scattered {
		names = k.Scatters
	}
	return slices.DeleteFunc(quant.Types(), func(t quant.Type) bool { return len(names(t)) < 2 })
}

// SameKernel reports whether rows of t with a and with b elements go by one kernel whatever is chosen.
func SameKernel(t quant.Type, a, b int) bool {
	k := kernel.Variants()[0]
	return k.ClassOf(t, a) == k.ClassOf(t, b)
}

// tuneShape is the weights whose products go one way: one type, and rows of one class, or scattered rows.
type tuneShape struct {
	t         quant.Type
	class     kernel.Class // 0 of scattered rows
	scattered bool
	mapped    bool // they are as the file has them
	matrices  []*compute.Matrix
	bytes     int
	at, row   int // the matrix and the row that are measured next
	turn      int // how often all were measured
}

// add adds a matrix to its shape, if it has any to choose from. The rows of neurons may be read in any selection.
func (u *tuner) add(k *kernel.Kernels, m *compute.Matrix) {
	t, class, scattered, mapped := m.Type, k.ClassOf(m.Type, m.Cols), mem(m).layout == neurons, !mem(m).packed
	if mapped && m.Cols%quant.QKK != 0 {
		return // such rows are packed first
	}
	if scattered {
		class = 0
	}
	i := slices.IndexFunc(u.shapes, func(s *tuneShape) bool {
		return s.t == t && s.class == class && s.scattered == scattered && s.mapped == mapped
	})
	if i < 0 {
		i = len(u.shapes)
		u.shapes = append(u.shapes, &tuneShape{t: t, class: class, scattered: scattered, mapped: mapped})
	}
	s := u.shapes[i]
	s.matrices = append(s.matrices, m)
	s.bytes += len(mem(m).data)
}

// Tune chooses the kernels of the weights that were taken in so far. It takes some milliseconds, and none where weights are few.
func (d *Device) Tune() {
	for _, s := range d.tuner.shapes {
		if d.tuner.kernels == KernelsAuto && s.bytes >= tuneBytes && d.k.HasMatrix(s.t) && !s.scattered && !s.mapped {
			d.tuneMatrix(s)
		}
		names := d.k.Ways(s.t)
		switch {
		case s.scattered:
			names = d.k.Scatters(s.t)
		case s.mapped:
			names = d.k.FileWays(s.t)
		}
		switch asked := d.tuner.kernels; {
		case asked == KernelsUsual || len(names) == 0:
		case asked != KernelsAuto:
			if slices.Contains(names, asked) {
				d.goes(s, asked)
			}
		case s.bytes >= tuneBytes && len(names) > 1:
			d.tune(s, names)
		}
	}
	d.tuner.shapes = nil
}

// goes has a shape's products go by the named kernel, one of those there are for it.
func (d *Device) goes(s *tuneShape, name string) {
	var err error
	switch {
	case s.scattered:
		err = d.k.GoScattered(s.t, name)
	case s.mapped:
		err = d.k.GoFile(s.t, s.class, name)
	default:
		err = d.k.Go(s.t, s.class, name)
	}
	if err != nil {
		panic(err)
	}
}

// usual returns the kernel that a shape's products go by when nothing was chosen.
func (d *Device) usual(s *tuneShape) string {
	switch {
	case s.scattered:
		return d.k.Scatter(s.t)
	case s.mapped:
		return d.k.FileWay(s.t, s.class)
	}
	return d.k.Way(s.t, s.class)
}

// tune times kernels in turn, each on weights that no other read just before, and takes the one with the fastest best round if it beats the usual one in
// duels, too. Duels go on until one kernel is tuneAhead ahead, or for tuneDuels. Best rounds are what a busy machine disturbs the least; where nothing is clear the usual kernel stays.
func (d *Device) tune(s *tuneShape, names []string) {
	usual := d.usual(s)
	begin := time.Now()
	best := make([]time.Duration, len(names))
	d.timed(s) // wakes the workers
	at := slices.Index(names, usual)
	rounds, slowest := 0, time.Duration(0) // of the usual kernel
	busy := func() bool { return slowest > tuneUneven*best[at] }
	for rounds < 2 || time.Since(begin) < tuneTime && (rounds < tuneRounds || busy() && rounds < tuneBusy) {
		for i, name := range names {
			d.goes(s, name)
			took := d.timed(s)
			if rounds == 0 || took < best[i] {
				best[i] = took
			}
			if i == at {
				slowest = max(slowest, took)
			}
		}
		rounds++
	}
	fastest := slices.Index(best, slices.Min(best))
	ahead := 0 // duels that the fastest won, less those that it lost
	if fastest != at {
		for duel := 0; duel < tuneDuels && ahead > -tuneAhead && ahead < tuneAhead; duel++ {
			d.goes(s, usual)
			u := d.timed(s)
			d.goes(s, names[fastest])
			f := d.timed(s)
			if f < u {
				ahead++
			} else {
				ahead--
			}
			best[fastest], best[at] = min(best[fastest], f), min(best[at], u)
		}
	}
	chosen := usual
	if ahead > 0 && float64(best[fastest]) < tuneGain*float64(best[at]) {
		chosen = names[fastest]
	}
	d.goes(s, chosen)
	c := Choice{Type: s.t, Scattered: s.scattered, Mapped: s.mapped, Cols: s.matrices[0].Cols, Kernel: chosen, Usual: usual, Rounds: rounds, Busy: busy(), Took: time.Since(begin)}
	for i, name := range names {
		c.Speeds = append(c.Speeds, KernelSpeed{name, tunePiece / max(best[i], 1).Seconds()})
	}
	d.chose(c)
}

// What a prompt's products go by where there is a matrix unit.
const (
	byTiles   = "tiles"
	byVectors = "vectors"
)

// What a prompt's products are measured with.
const (
	tuneMatrixRows   = 48
	tuneMatrixTokens = 64
	tuneMatrixRounds = 5
)

// tuneMatrix has weights of s's type go by the processor's matrix unit, unless vectors are faster in the best of a few rounds. Both give the same bytes.
func (d *Device) tuneMatrix(s *tuneShape) {
	m, start := s.matrices[0], time.Now()
	w, row := mem(m), d.k.Form(m.Type).ActRow(m.Cols)
	rows := min(tuneMatrixRows, m.Rows)
	out := make([]float32, rows*tuneMatrixTokens)
	at := unsafe.Pointer(unsafe.SliceData(zeros(tuneMatrixTokens * row)))
	var best [2]time.Duration
	for i := range 2 * tuneMatrixRounds {
		way := i % 2
		d.k.UseMatrix(s.t, way == 0)
		begin := time.Now()
		d.k.MatMul(m.Type, out, rows, w.data[:rows*w.rowBytes], rows, m.Cols, at, row, tuneMatrixTokens)
		if took := time.Since(begin); i < 2 || took < best[way] {
			best[way] = took
		}
	}
	c := Choice{Type: s.t, Prompts: true, Cols: m.Cols, Kernel: byVectors, Usual: byTiles, Rounds: tuneMatrixRounds, Took: time.Since(start)}
	if best[0] < best[1] {
		c.Kernel = byTiles
	}
	for way, name := range []string{byTiles, byVectors} {
		c.Speeds = append(c.Speeds, KernelSpeed{name, float64(rows*w.rowBytes*tuneMatrixTokens) / max(best[way], 1).Seconds()})
	}
	d.k.UseMatrix(s.t, c.Kernel == byTiles)
	d.chose(c)
}

// chose keeps a choice and tells of it.
func (d *Device) chose(c Choice) {
	d.tuner.choices = append(d.tuner.choices, c)
	if d.tuner.note != nil {
		d.tuner.note(c.String())
	}
}

// zeros returns n bytes of activations. It writes them, since the pages of memory that was only read are all one page of the system's. The first-level cache of AMD's
// processors keeps a line under one of its addresses at a time, so activations of several such pages would be read at half their speed.
func zeros(n int) []byte {
	x := make([]byte, n+cacheLine)
	clear(x)
	return x[aligned(x):][:n]
}

// timed computes one token's products with the next pieces of a shape's weights, on all threads, and returns how long a piece took.
func (d *Device) timed(s *tuneShape) time.Duration {
	if s.scattered {
		return d.timedScattered(s)
	}
	m, row, rows := s.next(2 * d.decode.Threads())
	w, f := mem(m), d.k.Form(m.Type)
	x := zeros(f.ActRow(m.Cols))
	out := make([]float32, rows)
	chunk := max(1, tunePiece/w.rowBytes)
	begin := time.Now()
	d.decode.Run((rows+chunk-1)/chunk, func(c, worker int) {
		from, to := c*chunk, min(rows, (c+1)*chunk)
		d.multiply(m, w.data[(row+from)*w.rowBytes:(row+to)*w.rowBytes], to-from, out[from:to], to-from, unsafe.Pointer(unsafe.SliceData(x)), 0, 1, worker)
	})
	return time.Duration(float64(time.Since(begin)) * tunePiece / float64(rows*w.rowBytes))
}

// timedScattered is timed of one of each tuneStride rows: at unlike distances, and another one in each turn, which no cache has yet.
func (d *Device) timedScattered(s *tuneShape) time.Duration {
	m, row, rows := s.next(2 * d.decode.Threads() * tuneStride)
	w, f := mem(m), d.k.Form(m.Type)
	x := zeros(f.ActRow(m.Cols))
	index := make([]int32, rows/tuneStride)
	for i := range index {
		index[i] = int32(row + i*tuneStride + (i*i+s.turn)%tuneStride)
	}
	out := make([]float32, len(index))
	chunk := max(1, tunePiece/w.rowBytes)
	begin := time.Now()
	d.decode.Run((len(index)+chunk-1)/chunk, func(c, _ int) {
		from, to := c*chunk, min(len(index), (c+1)*chunk)
		d.k.DotRows(m.Type, out[from:to], w.data, index[from:to], m.Cols, unsafe.Pointer(unsafe.SliceData(x)))
	})
	return time.Duration(float64(time.Since(begin)) * tunePiece / float64(max(1, len(index))*w.rowBytes))
}

// next returns the next rows of the shape's weights: so many pieces, or a whole matrix that has fewer. What is left at a matrix's end is
// passed over, for a part of a piece has another speed.
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
