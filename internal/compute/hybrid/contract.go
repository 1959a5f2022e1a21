package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// GPU is a device that works at the same time as a Host. It records segments, takes weights in the middle of a segment,
// and takes new rows into matrices that it holds. The executor of its runs is a Recorder.
type GPU interface {
	compute.Device
	// Record prepares what later runs of seg need, and returns the error that they would meet.
	Record(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error

	// StreamBuffer allocates GPU memory for matrices of size bytes together, to which weights are sent.
	StreamBuffer(size int64) (any, error)
	// StreamedBytes returns the most bytes that a row with that many elements of type t takes there.
	StreamedBytes(t quant.Type, elements int) int64

	// StagedBytes returns the host memory, in bytes, that n rows of m pass through when they replace others.
	StagedBytes(m *compute.Matrix, n int) int64
	// RowStage allocates that many bytes of such memory.
	RowStage(bytes int64) (compute.RowStage, error)
	// CopiesBeside reports whether rows are copied on a queue of their own while the GPU computes. Otherwise a run
	// waits for what was passed on before it.
	CopiesBeside() bool
}

// Recorder records a segment for a GPU that works at the same time as the host. The functions that it returns are valid
// in every replay.
type Recorder interface {
	compute.Executor
	// Overlap waits for the operations recorded so far and calls host, while the GPU computes the operations that
	// during records; during may be nil. Operations recorded afterwards see what host wrote. An error of host ends the
	// run.
	Overlap(host func(p *compute.Params) error, during func())
	// Idles reports whether cores and memory are idle while the host waits. They are not if the GPU itself runs on
	// them.
	Idles() bool
	// Meanwhile makes the host call f while it waits in the next Overlap. done reports whether the wait is over. ready
	// reports whether the work recorded during the previous Overlap has run, so that its downloads are there.
	Meanwhile(f func(ready, done func() bool))

	// Download copies t to the host. The data is there in the next Overlap or, if none follows, when the segment has
	// run: [t.Rows·t.Cols].
	Download(t compute.Tensor) func() []float32
	// DownloadSet does so with a set's bits: token i has words[i·perRow:].
	DownloadSet(s compute.Set) func() (words []uint32, perRow int)
	// DownloadChoice does so with a choice: [c.Rows, 2·c.Used] for each token its experts' numbers, then their weights.
	DownloadChoice(c compute.Choice) func() []float32
	// Upload fills t with what the host of an earlier Overlap writes to the returned memory: [t.Rows·t.Cols].
	Upload(t compute.Tensor) func() []float32
	// UploadSet does so with a set's bits.
	UploadSet(s compute.Set) func() (words []uint32, perRow int)
	// UploadChoice fills c so.
	UploadChoice(c compute.Choice) func() []float32

	// Feed makes the host call fill as soon as nothing reads the host memory of buffer, from GPU.StreamBuffer, any
	// more. Unlike an Overlap's host function, fill does not wait for what was recorded so far, so it works ahead of
	// the GPU. It calls the Filler of the UploadWeights that follows.
	Feed(buffer any, fill func(p *compute.Params) error)
	// UploadWeights makes buffer hold matrices from here on. The host function of an earlier Overlap or Feed fills in
	// their data. Work recorded during an Overlap may fill one buffer while it computes with another's matrices; a
	// later turn of the host begins when they are there.
	UploadWeights(buffer any, weights []compute.Sent) ([]*compute.Matrix, compute.Filler)
	// UploadPages copies pages into a cache of one layer. In each run the host calls find, which returns the pages'
	// numbers, and then read for each of them, on several goroutines. read writes the page to scratch, which has room
	// for it, in ReadPage's form. As in Feed, the host does not wait for what was recorded so far.
	UploadPages(c *compute.Cache, find func(p *compute.Params) []int32, read func(page int32, scratch []byte) error)
	// Mark returns the current place in the recording, for After.
	Mark() uint64
	// After makes the host call f when everything recorded up to mark has run, whatever was recorded since. Downloads
	// up to mark are there. f must not write anything that is uploaded.
	After(mark uint64, f func(p *compute.Params) error)
}

// Host is the CPU, which works at the same time as a GPU. Its memory can be read and written between the operations of
// a run, and its weights can be read back. It also takes predictions while it runs.
type Host interface {
	compute.Device
	compute.Foreseer
	compute.RowKeeper

	// Data returns a tensor's memory. [t.Rows·t.Cols]
	Data(t compute.Tensor) []float32
	// Over returns t with data as its memory.
	Over(t compute.Tensor, data []float32) compute.Tensor
	// FillSet sets token i's neurons: those with a bit in words[i·perRow:], counted from first.
	FillSet(s compute.Set, words []uint32, perRow, first int)
	// SetWords writes every token's neurons as bits.
	SetWords(s compute.Set, words []uint32, perRow int)
	// FillChoice sets every token's experts and weights to what DownloadChoice returned. An invalid expert number,
	// which a faulty GPU may return, becomes expert 0 with the weight NaN.
	FillChoice(c compute.Choice, chosen []float32)
	// ChoiceData writes the numbers of every token's experts, and then their weights, to chosen. [c.Rows·2·c.Used]
	ChoiceData(c compute.Choice, chosen []float32)

	// Restorable says how Restore returns m's neurons: as Rows, or as Columns, in blocks of m's type.
	Restorable(m *compute.Matrix) compute.Use
	// Restore returns neurons [from, to) of m as a file stores them. The result may be in scratch, which has room for
	// them.
	Restore(m *compute.Matrix, from, to int, scratch []byte) compute.Source
	// ReadAhead brings rows that a SparseFFN for one token will need into the CPU's cache, until done.
	ReadAhead(s compute.Set, w compute.SparseWeights, done func() bool)

	// GuessUnits reads units of m's bundle that a step may need and that are not in RAM, the likeliest first. It reads
	// them after those that the next Experts of the current run needs, and only as many as predictions may cost. No
	// result depends on it.
	GuessUnits(m *compute.Matrix, units []int32)
	// Lend reserves RAM for units in their file form: for that many fetches at a time, of that many bytes each. It is
	// called between Bundle and Keep, and reports whether there is enough.
	Lend(fetches int, bytes int64) bool
	// Lends reports whether Fetch and Borrow can return m's rows.
	Lends(m *compute.Matrix) bool
	// Fetch begins to read units of m's bundle that are not in RAM. It does not wait.
	Fetch(m *compute.Matrix, units []int32) compute.UnitFetch
	// Borrow is Fetch of one unit. Until Release, Wait and Row may be called on another goroutine, whatever the device
	// does.
	Borrow(m *compute.Matrix, unit int32) compute.UnitFetch
}
