// Package compute describes what a model needs of a processor: weights and activations on a device, and the operations
// that a forward pass is written in.
//
// A Device loads weights (Source, Matrix, Vector) and allocates activations (Tensor, Set, Choice) and caches of keys
// and values. It runs segments: functions that call operations as methods of Verbs, with Params for what changes from
// step to step. The files ops_*.go define the operations by subject; their comments are the definition. Each device
// implements Operations. Package hybrid makes one device of GPUs and the CPU, and says what it needs of them.
//
// Activations are float32, row-major, one row per token. An operation works on all rows of its tensors, which have the
// same number of rows unless it says otherwise.
package compute

import (
	"context"
	"fmt"
	"io"
)

// Device owns weights, activations and caches, and runs segments over them.
// A device is used by one goroutine at a time.
type Device interface {
	Name() string

	// Matrix takes a weight in. Errors name the tensor.
	Matrix(src Source, use Use) (*Matrix, error)
	Vector(src Source) (*Vector, error)
	Tensor(rows, cols int) (Tensor, error)
	Cache(spec CacheSpec) (*Cache, error)
	Set(rows, n int) (Set, error)
	// Choice allocates choices of used of n experts for each of rows tokens.
	Choice(rows, used, n int) (Choice, error)

	// Bundle says that the units of parts, which are matrices on disk, are read and kept together. All parts have the
	// same number of units, and unit u of each part belongs to the same expert or neuron. prior is the share of tokens
	// that are expected to use each unit, or nil. [units]
	Bundle(prior []float64, parts ...*Matrix) error
	// Keep makes room in RAM for units, once all bundles are known, and reads those that are expected to be used most,
	// as far as there is room. progress, which may be nil, gets the bytes read.
	Keep(ctx context.Context, progress func(done, total int64)) error
	// Tune chooses, by measuring, among kernels that give the same bytes, for the weights that the device holds. It is
	// called once they are loaded.
	Tune()
	// ExpandsLatent reports whether AttendLatent can be used in layers with their part of the cache in RAM.
	ExpandsLatent() bool

	// Shape returns the segment to run a step of seg's rows as: one with room for as many of each kind or more, where
	// the device would rather run a recording with rows to spare than make another. Where seg has none of a kind, it has
	// none either. No step is larger than most in tokens and rows of logits.
	Shape(seg, most Segment) Segment
	// Spare returns how many rows a segment that Shape returns may have beyond most, the tokens of the largest step.
	Spare(most int) int
	// Steps returns the numbers of tokens, at most most, of the steps that together need what any step does; the largest
	// is the first.
	Steps(most int) []int
	// Rehearse prepares the segments that f runs, without running them. It does not call f where nothing needs to be
	// prepared.
	Rehearse(f func() error) error
	// RehearsesEarly reports whether usual steps should now be rehearsed, before they come, if there is nothing else to do.
	RehearsesEarly() bool

	// Step says that a step of that many tokens begins. The following runs count their uses of units for it.
	Step(tokens int)
	// Run does body's operations with params p. The body must call the same ones for every p of the same segment and
	// read no tensor's content.
	Run(seg Segment, p *Params, body func(Verbs)) error
	// Read returns row i of t, of the rows that the last step has, valid until the next Run: [t.Cols]. It fails where a
	// GPU does.
	Read(t Tensor, i int) ([]float32, error)
	// CopyPage copies page from to page to, in every layer of c that both have.
	CopyPage(c *Cache, to, from Page)
	// ReadPage writes the keys and values of a page's first positions to layers, one slice for each of c's layers. The
	// length of a slice determines the positions (KVShape.Positions); it may be zero. A slice of a layer with recurrent
	// states is empty, or has room for the slot's state. The order is the same on every device. ReadPage may be called
	// between runs.
	ReadPage(c *Cache, page Page, layers [][]byte) error
	// WritePage fills a page's first positions with what ReadPage gave. The rest of the page is lost.
	WritePage(c *Cache, page Page, layers [][]byte) error

	// Watch adds the work of later runs to w's while w is on.
	Watch(w *Watch)
	// Usage says what the device did until now. It is called between runs.
	Usage() Usage

	io.Closer
}

// Plain has default methods for a device: it keeps no weights on disk, records no segments and counts nothing. Devices
// that forward calls do not embed it, so that the compiler demands every method.
type Plain struct{}

// Bundle fails.
func (Plain) Bundle(_ []float64, parts ...*Matrix) error {
	return fmt.Errorf("tensor %q: this device cannot compute with weights on disk", parts[0].Name)
}

// Keep does nothing: there are no units.
func (Plain) Keep(context.Context, func(done, total int64)) error { return nil }

// Tune does nothing.
func (Plain) Tune() {}

// ExpandsLatent returns false.
func (Plain) ExpandsLatent() bool { return false }

// Shape returns seg.
func (Plain) Shape(seg, _ Segment) Segment { return seg }

// Spare returns 0.
func (Plain) Spare(int) int { return 0 }

// Steps returns the largest step.
func (Plain) Steps(most int) []int { return []int{most} }

// Rehearse does nothing.
func (Plain) Rehearse(func() error) error { return nil }

// RehearsesEarly returns false.
func (Plain) RehearsesEarly() bool { return false }

// Step does nothing.
func (Plain) Step(int) {}

// Watch does nothing.
func (Plain) Watch(*Watch) {}

// Usage returns nothing.
func (Plain) Usage() Usage { return Usage{} }
