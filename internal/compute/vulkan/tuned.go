package vulkan

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tuned is what a device was found fastest with: of each type an arithmetic, and of each shape of product a variant.
// The first product of a shape is timed; a file keeps what was found, so that a machine's results are the same bytes
// from run to run.
type tuned struct {
	Shaders string            // the sum of the code that was timed
	Found   map[string]string // by what was timed

	path string // path of the file; empty: nothing is kept
}

// tunedLimit bounds the bytes that such a file may have.
const tunedLimit = 1 << 20

// loadTuned returns what the file at path holds of this program's shaders.
func loadTuned(path string) *tuned {
	t := &tuned{path: path}
	if f, err := os.Open(path); path != "" && err == nil {
		defer f.Close()
		if err := json.NewDecoder(io.LimitReader(f, tunedLimit)).Decode(t); err != nil {
			*t = tuned{path: path}
		}
	}
	code := shaders.Sums("cooperative", "cooperative_experts", "workgroup", "decode", "matmat_half", "matmat", "halve", "attention_tile", "attention_workgroup", "combine")
	if t.Shaders != code || t.Found == nil {
		t.Shaders, t.Found = code, map[string]string{}
	}
	return t
}

// keep stores a result. A file that cannot be written is not an error: the next process takes as long.
func (t *tuned) keep(of, found string) {
	t.Found[of] = found
	if t.path == "" || os.MkdirAll(filepath.Dir(t.path), 0o755) != nil {
		return
	}
	_ = atomicfile.Write(t.path, atomicfile.Kind{Shared: true}, func(f *atomicfile.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(t)
	})
}

// times reports whether products are timed. A device that only counts does not time them, and neither does a software
// device: there one shape is as good as another, and a product takes seconds.
func (d *Device) times() bool {
	return !d.gpu.Counts() && (d.gpu.Info.Kind != driver.CPU || d.long.timed)
}

// foresees reports whether d only counts for a device that times its products.
func (d *Device) foresees() bool {
	return d.gpu.Counts() && d.pipelines != nil && d.gpu.Info.Kind != driver.CPU
}

// found returns the stored results of the fastest ways.
func (d *Device) found() *tuned {
	if d.long.tuned == nil {
		path := ""
		if d.pipelines != nil {
			path = d.pipelines.Beside("products", ".json")
		}
		d.long.tuned = loadTuned(path)
	}
	return d.long.tuned
}

// A product that is timed has that many columns, and at most that many outputs. It takes some hundred megabytes for a
// moment.
const (
	timedColumns = 1024
	timedOutputs = 8 << 20
	timedTokens  = 1024
	timedBudget  = 256 << 20
)

// timedShape returns the product that is timed instead of one with that many rows and tokens.
func timedShape(rows, n int) (int, int) {
	rows = min(rows, timedOutputs/matTile)
	n = min(ceil(n, matTile)*matTile, timedTokens)
	for rows*n > timedOutputs {
		n = ceil(n/2, matTile) * matTile
	}
	return rows, n
}

// variant returns the fastest variant of a for products of n tokens with a matrix of that many rows of type t.
func (d *Device) variant(a Arithmetic, t quant.Type, rows, n int) variant {
	all := d.variants(a)
	rows, n = timedShape(rows, n)
	of := fmt.Sprintf("%s %d×%d %s", t, rows, n, a)
	known := d.found()
	for _, v := range all {
		if v.String() == known.Found[of] {
			return v
		}
	}
	v := likely(all, rows, n)
	if len(all) == 1 || !d.times() && !d.foresees() {
		return v
	}
	if took, err := d.timeProducts(t, rows, n, all); err == nil && d.times() {
		best := 0
		for i := range all {
			if took[i] < took[best] {
				best = i
			}
		}
		v = all[best]
		known.keep(of, v.String())
	}
	return v
}

// chooses reports whether arithmetics are timed: not where the choice could not be kept, because another one would be
// other bytes.
func (d *Device) chooses() bool { return d.times() && d.found().path != "" }

// faster returns the arithmetic out of serve with the fastest products; all of them can compute t. One variant of each
// is timed, because each takes a while to compile.
func (d *Device) faster(t quant.Type, serve []Arithmetic) Arithmetic {
	known := d.found()
	of := t.String()
	for _, a := range serve {
		if a.String() == known.Found[of] {
			return a
		}
	}
	if len(serve) == 1 || !d.chooses() {
		return serve[0]
	}
	const rows, n = 4096, 512
	best, least := serve[0], 0.0
	for i, a := range serve {
		took, err := d.timeProducts(t, rows, n, []variant{likely(d.variants(a), rows, n)})
		if err != nil {
			return serve[0]
		}
		if i == 0 || took[0] < clearly*least {
			best, least = a, took[0]
		}
	}
	known.keep(of, best.String())
	return best
}

// clearly is the share of an earlier arithmetic's time that a later one must stay below.
const clearly = 0.9

// timeProducts returns the seconds that a product takes in each variant.
func (d *Device) timeProducts(t quant.Type, rows, n int, all []variant) ([]float64, error) {
	own := d.apart(timedBudget)
	defer own.reset()
	x, err := own.Tensor(n, timedColumns)
	if err != nil {
		return nil, err
	}
	out, err := own.Tensor(n, rows)
	if err != nil {
		return nil, err
	}
	w, err := own.Matrix(compute.Source{Name: "timed", Type: t, Rows: rows, Cols: timedColumns, Data: make([]byte, rows*t.RowBytes(timedColumns))}, compute.Dense)
	if err != nil {
		return nil, err
	}
	const (
		enough  = 1e-3 // seconds of a run
		repeats = 4    // the first one warms up
		most    = 32
	)
	took := make([]float64, len(all))
	for i, v := range all {
		multiply := func(r *recorder) {
			r.multiplyBy(v, &operand{r: r, x: x, name: "timed"}, 0, n, 0, compute.Product{Out: out, W: w})
		}
		if own.gpu.Counts() { // variants that will be timed are compiled now
			_ = own.once(multiply)
			continue
		}
		passes := 1
		for run := range repeats {
			seconds, err := own.timed(passes, multiply)
			if err != nil {
				return nil, err
			}
			each := seconds.Seconds() / float64(passes)
			if run == 1 || run > 1 && each < took[i] {
				took[i] = each
			}
			passes = max(1, min(most, int(enough/each)))
		}
	}
	return took, nil
}
