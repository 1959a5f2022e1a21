package measure

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A product as of a 7B model's prompt, in Q4_0: enough rows for every core's chunks.
const (
	productRows   = 2048
	productCols   = 4096
	productTokens = 128
	productTime   = 200 * time.Millisecond // of passes
	productSteps  = 2                      // figures
)

// measureProducts fills in Products and Packs, with all cores. The weights are zeros: products take as long whatever
// they are.
func (m *Machine) measureProducts(step func()) error {
	d, w, src, err := product(m.Cores)
	if err != nil {
		return err
	}
	defer d.Close()
	x, err := d.Tensor(productTokens, productCols)
	if err != nil {
		return err
	}
	out, err := d.Tensor(productTokens, productRows)
	if err != nil {
		return err
	}
	p := &compute.Params{Tokens: make([]int32, productTokens)}
	seconds, err := fastest(func() error {
		return d.Run(compute.Segment{}, p, func(v compute.Verbs) { v.MatMul(x, compute.Products{{Out: out, W: w}}) })
	})
	if err != nil {
		return err
	}
	m.Products = productRows * productCols * productTokens / seconds
	step()
	scratch := make([]byte, len(src.Data))
	seconds, err = fastest(func() error { d.Restore(w, 0, productRows, scratch); return nil })
	m.Packs = float64(len(src.Data)) / seconds
	step()
	return err
}

// product returns a CPU device with this many threads and the weights of a product, which are src's.
func product(threads int) (d *cpu.Device, w *compute.Matrix, src compute.Source, err error) {
	src = compute.Source{
		Name: "products", Type: quant.Q4_0, Rows: productRows, Cols: productCols,
		Data: make([]byte, productRows*quant.Q4_0.RowBytes(productCols)),
	}
	if d, err = cpu.New(cpu.Options{Threads: threads, ThreadsBatch: threads}); err != nil {
		return nil, nil, src, err
	}
	if w, err = d.Matrix(src, compute.Rows); err != nil {
		d.Close()
		return nil, nil, src, err
	}
	return d, w, src, nil
}

// fastest returns the least time of f, in seconds, over productTime, because other programs disturb that one least.
func fastest(f func() error) (float64, error) {
	best := time.Duration(1<<63 - 1)
	for total := time.Duration(0); total < productTime; {
		begin := monotime.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took := max(monotime.Since(begin), 1)
		best, total = min(best, took), total+took
	}
	return best.Seconds(), nil
}
