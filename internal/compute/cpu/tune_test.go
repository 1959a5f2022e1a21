package cpu

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tuned returns one token's products with weights of typ [rows, cols] by the kernels asked for, and what was said about
// the choice.
func tuned(t *testing.T, kernels string, typ quant.Type, rows, cols int) (out []float32, notes []string) {
	t.Helper()
	const seed = 3
	d, err := New(Options{Threads: 2, Kernels: kernels, Note: func(line string) { notes = append(notes, line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, rows*typ.RowBytes(cols))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for at := 0; at < len(data); at += typ.BlockBytes() {
		typ.SetUnits(data[at:][:typ.BlockBytes()], func() float32 { return 1. / 16 })
	}
	w, err := d.Matrix(compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: data}, compute.Dense)
	if err != nil {
		t.Fatal(err)
	}
	d.Tune()
	x, err := d.Tensor(1, cols)
	if err != nil {
		t.Fatal(err)
	}
	y, err := d.Tensor(1, rows)
	if err != nil {
		t.Fatal(err)
	}
	for i := range floats(x) {
		floats(x)[i] = float32(rng.NormFloat64())
	}
	if err := d.Run(compute.Segment{}, &compute.Params{Tokens: []int32{0}, Pos: []int32{0}}, func(v compute.Verbs) {
		v.MatMul(x, compute.Products{{Out: y, W: w}})
	}); err != nil {
		t.Fatal(err)
	}
	// Ways of several tokens may have been measured, too.
	return slices.Clone(floats(y)), slices.DeleteFunc(notes, func(line string) bool { return !strings.HasPrefix(line, "kernel of ") })
}

// TestTune: whatever is chosen, and however, products have the same bytes; few weights are not measured.
func TestTune(t *testing.T) {
	k, err := kernel.New("")
	if err != nil {
		t.Fatal(err)
	}
	const rows, cols = tuneBytes/(2048/2) + 5, 2048
	want, notes := tuned(t, KernelsUsual, quant.Q4_0, rows, cols)
	if len(notes) != 0 {
		t.Errorf("measured though it was not asked for: %q", notes)
	}
	for _, kernels := range append(k.Ways(quant.Q4_0, kernel.Consecutive), KernelsAuto) {
		got, notes := tuned(t, kernels, quant.Q4_0, rows, cols)
		if !slices.Equal(got, want) {
			t.Errorf("%s gives other bytes", kernels)
		}
		if measured := kernels == KernelsAuto && len(k.Ways(quant.Q4_0, kernel.Consecutive)) > 1; measured != (len(notes) == 1) {
			t.Errorf("%s: %d choices noted", kernels, len(notes))
		} else if measured && !slices.ContainsFunc(k.Ways(quant.Q4_0, kernel.Consecutive), func(name string) bool { return strings.Contains(notes[0], name) }) {
			t.Errorf("the note names no kernel: %q", notes[0])
		}
	}
	if _, notes := tuned(t, KernelsAuto, quant.Q4_0, 512, cols); len(notes) != 0 {
		t.Errorf("half a MiB of weights was measured: %q", notes)
	}
}

// TestTuneScattered: rows chosen by index have their own choice, which leaves the products of whole matrices to theirs.
func TestTuneScattered(t *testing.T) {
	var notes []string
	d, err := New(Options{Threads: 2, Kernels: KernelsAuto, Note: func(line string) { notes = append(notes, line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const rows, cols = 2*tuneBytes/2048 + 5, 2048
	src := compute.Source{Name: "w", Type: quant.Q8_0, Rows: rows, Cols: cols, Data: make([]byte, rows*quant.Q8_0.RowBytes(cols))}
	if _, err := d.Matrix(src, compute.Rows); err != nil {
		t.Fatal(err)
	}
	usual := d.k.Way(quant.Q8_0, kernel.Consecutive, d.k.ClassOf(quant.Q8_0, kernel.Consecutive, cols))
	d.Tune()
	names := d.k.Ways(quant.Q8_0, kernel.Scattered)
	if len(names) < 2 {
		if len(notes) != 0 {
			t.Errorf("%q are noted, where there is nothing to choose from", notes)
		}
		return
	}
	if c := d.Choices(); len(c) != 1 || c[0].Order != kernel.Scattered || len(c[0].Speeds) != len(names) || c[0].Kernel != d.k.Way(quant.Q8_0, kernel.Scattered, 0) || !slices.Contains(names, c[0].Kernel) {
		t.Errorf("chosen: %v of %q", c, names)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "scattered rows") {
		t.Errorf("notes: %q", notes)
	}
	if now := d.k.Way(quant.Q8_0, kernel.Consecutive, d.k.ClassOf(quant.Q8_0, kernel.Consecutive, cols)); now != usual {
		t.Errorf("consecutive rows go by %s, not by %s", now, usual)
	}
}

// TestTuneMapped: rows as the file has them have their own choice, where there are such kernels, which leaves those of
// packed rows alone; rows whose length none takes have none.
func TestTuneMapped(t *testing.T) {
	var notes []string
	d, err := New(Options{Threads: 2, Kernels: KernelsAuto, Note: func(line string) { notes = append(notes, line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names, usual := d.k.Ways(quant.Q4_0, kernel.Mapped), d.k.Way(quant.Q4_0, kernel.Consecutive, d.k.ClassOf(quant.Q4_0, kernel.Consecutive, 2048))
	const rows = 2 * tuneBytes / 1152
	for _, cols := range []int{2048, 2048 + 32} {
		src := compute.Source{Name: "w", Type: quant.Q4_0, Rows: rows, Cols: cols, Data: make([]byte, rows*quant.Q4_0.RowBytes(cols)), Pinned: true}
		if _, err := d.Matrix(src, compute.Dense); err != nil {
			t.Fatal(err)
		}
		d.Tune()
	}
	if len(names) < 2 {
		if len(notes) != 0 {
			t.Errorf("%q are noted, where there is nothing to choose from", notes)
		}
		return
	}
	if c := d.Choices(); len(c) != 1 || c[0].Order != kernel.Mapped || len(c[0].Speeds) != len(names) || c[0].Kernel != d.k.Way(quant.Q4_0, kernel.Mapped, d.k.ClassOf(quant.Q4_0, kernel.Mapped, 2048)) || !slices.Contains(names, c[0].Kernel) {
		t.Errorf("chosen: %v of %q", c, names)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "mapped rows") {
		t.Errorf("notes: %q", notes)
	}
	if now := d.k.Way(quant.Q4_0, kernel.Consecutive, d.k.ClassOf(quant.Q4_0, kernel.Consecutive, 2048)); now != usual {
		t.Errorf("packed rows go by %s, not by %s", now, usual)
	}
}

// TestTunePieces: what is timed is never a rest of a matrix, whose time says nothing of a piece's, and all weights have
// their turn.
func TestTunePieces(t *testing.T) {
	d, err := New(Options{Threads: 1, Kernels: KernelsAuto})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const cols = 2048
	for _, rows := range []int{100, 1000, 1003} {
		src := compute.Source{Name: "w", Type: quant.Q8_0, Rows: rows, Cols: cols, Data: make([]byte, rows*quant.Q8_0.RowBytes(cols))}
		if _, err := d.Matrix(src, compute.Dense); err != nil {
			t.Fatal(err)
		}
	}
	s := d.tuner.shapes[0]
	whole := tunePiece / mem(s.matrices[0]).rowBytes
	seen := map[*compute.Matrix]int{}
	for range 100 {
		m, row, rows := s.next(1)
		if rows != min(m.Rows, whole) || row+rows > m.Rows {
			t.Fatalf("rows %d to %d of %d are timed; a piece has %d", row, row+rows, m.Rows, whole)
		}
		seen[m] = max(seen[m], row+rows)
	}
	for _, m := range s.matrices {
		if seen[m] == 0 || m.Rows-seen[m] >= whole {
			t.Errorf("of %d rows the last that are timed end at %d", m.Rows, seen[m])
		}
	}
}

// TestDisplace: as many bytes are read as are asked for, of as many rows, with few threads and where one measurement
// takes a turn through all memory.
func TestDisplace(t *testing.T) {
	const cols, bytes = 4096, 64 << 20
	for _, threads := range []int{1, 20} {
		d, err := New(Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		rowBytes := kernel.RowBytes(quant.Q4_0, cols)
		rows := bytes / rowBytes
		var u tuner
		u.add(&compute.Matrix{Type: quant.Q4_0, Rows: rows, Cols: cols, Mem: &matrix{rowBytes: rowBytes, packed: true, layout: neurons, k: d.k, data: make([]byte, rows*rowBytes)}})
		s := u.shapes[0]
		d.displace(s, bytes/TuneCaches)
		d.Close()
		if read := (s.turn*rows + s.row) / tuneStride * rowBytes; read < bytes/TuneCaches-tuneStride*rowBytes || read > bytes/TuneCaches+bytes/tuneStride {
			t.Errorf("%d threads: %d bytes read, want %d", threads, read, bytes/TuneCaches)
		}
	}
}

// TestKernelsNameASet opens the device with an instruction set's name for its kernels.
func TestKernelsNameASet(t *testing.T) {
	names := kernel.Names()
	last := names[len(names)-1]
	d, err := New(Options{Threads: 1, Kernels: strings.ToUpper(last)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if want := "CPU " + last + ", 1 thread"; d.Name() != want {
		t.Errorf("the device is %q, want %q", d.Name(), want)
	}
}

// TestDecide: a kernel is chosen if it gains enough and is ahead in duels; the reason agrees with the speeds.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		rival  string
		speed  float64 // of the rival, the usual kernel's being 40
		fought duels
		busy   bool
		kernel string
		why    string
	}{
		{"usual", 40, duels{}, false, "usual", "usual, and the fastest"},
		{"other", 39, duels{won: 3}, false, "usual", "usual, and the fastest"},
		{"other", 41, duels{won: 3}, false, "usual", "usual; other gains less than 5 %"},
		{"other", 50, duels{won: 6, lost: 9}, false, "usual", "usual; other was faster in its best round, but lost 9 of 15 duels"},
		{"other", 50, duels{won: 4, lost: 1}, false, "other", "1.25 times as fast as usual, the usual one"},
		{"other", 50, duels{won: 4, lost: 1}, true, "other", "1.25 times as fast as usual, the usual one; other programs were busy"},
	} {
		got := Choice{Usual: "usual", Busy: c.busy, Speeds: []KernelSpeed{{"usual", 40}, {"other", c.speed}}}
		if got.decide(c.rival, c.fought); got.Kernel != c.kernel || got.Why != c.why {
			t.Errorf("%+v: %s, %q", c, got.Kernel, got.Why)
		}
	}
}

// TestTuneOn chooses for a shape of each order on memory that is given. The next shape begins where the last one ended.
func TestTuneOn(t *testing.T) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	memory, end := make([]byte, 64<<20), 0
	seen := map[kernel.Order]bool{}
	for _, s := range Shapes() {
		if seen[s.Order] {
			continue
		}
		seen[s.Order] = true
		before := len(d.Choices())
		from := end
		if end = d.TuneOn(s, memory, from); end == from || end > len(memory) {
			t.Errorf("%v: from %d to %d", s, from, end)
		}
		for _, c := range d.Choices()[before:] {
			if c.Type != s.Type || c.Order != s.Order || c.Cols != s.Cols || c.Why == "" {
				t.Errorf("%v: %+v", s, c)
			}
		}
		if len(d.Choices()) == before {
			t.Errorf("%v: nothing was chosen", s)
		}
	}
	if want := len(kernel.Variants()) > 1; want && len(seen) == 0 {
		t.Error("there is nothing to choose from")
	}
}
