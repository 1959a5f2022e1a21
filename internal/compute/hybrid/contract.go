package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// GPU is a device that works at the same time as a Host: it records segments, takes weights in the middle of one, and
// new rows into matrices that it holds. The executor of its runs is a Recorder.
type GPU interface {
	compute.Device
	// Record makes what later runs of seg need: what cannot be had is this error instead of theirs.
	Record(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error

	// StreamBuffer allocates GPU memory for matrices of size bytes together, to which weights are sent.
	StreamBuffer(size int64) (any, error)
	// StreamedBytes returns what a row of so many elements of type t takes there, at most.
	StreamedBytes(t quant.Type, elements int) int64

	// StagedBytes returns the host memory that n rows of m pass through when they replace others.
	StagedBytes(m *compute.Matrix, n int) int64
	// RowStage allocates so many bytes of it.
	RowStage(bytes int64) (compute.RowStage, error)
	// CopiesBeside reports whether rows come by a queue of their own, while the GPU computes; else a run waits for what
	// was passed on before it.
	CopiesBeside() bool
}

// Recorder records a segment for a GPU that works at the same time as the host. The functions that it returns are valid
// in every replay.
type Recorder interface {
	compute.Executor
	// Overlap waits for what was recorded so far and calls host, while the GPU computes what during, which may be nil,
	// records. What is recorded afterwards sees what host wrote. An error of host's ends the run.
	Overlap(host func(p *compute.Params) error, during func())
	// Idles reports whether cores and memory have nothing to do while the host waits; they have where the GPU uses them
	// itself.
	Idles() bool
	// Meanwhile has the host call f while it waits in the next Overlap. done reports whether the wait is over; ready
	// reports whether what ran during the Overlap before has run, so that its downloads are there.
	Meanwhile(f func(ready, done func() bool))

	// Download copies t to the host, which finds it in the next Overlap or, if none follows, when the segment has run:
	// [t.Rows·t.Cols].
	Download(t compute.Tensor) func() []float32
	// DownloadSet does so with a set's bits: token i's are words[i·perRow:].
	DownloadSet(s compute.Set) func() (words []uint32, perRow int)
	// DownloadChoice does so with a choice: [c.Rows, 2·c.Used] of each token its experts' numbers, then their weights.
	DownloadChoice(c compute.Choice) func() []float32
	// Upload fills t with what the host of an earlier Overlap writes to the returned memory: [t.Rows·t.Cols].
	Upload(t compute.Tensor) func() []float32
	// UploadSet does so with a set's bits.
	UploadSet(s compute.Set) func() (words []uint32, perRow int)
	// UploadChoice fills c so.
	UploadChoice(c compute.Choice) func() []float32

	// Feed has the host call fill as soon as nothing reads the host memory of buffer, of GPU.StreamBuffer, any more:
	// unlike an Overlap's host it does not wait for what was recorded so far, so that it works ahead of the GPU. Fill
	// calls the Filler of the UploadWeights that follows.
	Feed(buffer any, fill func(p *compute.Params) error)
	// UploadWeights makes buffer hold matrices from here on. The host of an earlier Overlap or Feed fills in their data.
	// What is recorded during an Overlap may fill one buffer while it computes with another's matrices; a later turn of
	// the host comes when they are there.
	UploadWeights(buffer any, weights []compute.Sent) ([]*compute.Matrix, compute.Filler)
	// UploadPages brings pages into a cache of one layer. In each run the host calls find, which returns their numbers,
	// and then read for each of them, on several goroutines: it returns the page as ReadPage does, in scratch, which
	// has room for it. As in Feed the host does not wait for what was recorded so far.
	UploadPages(c *compute.Cache, find func(p *compute.Params) []int32, read func(page int32, scratch []byte) error)
	// Mark returns the place that the recording has reached, for After.
	Mark() uint64
	// After has the host call f when what was recorded up to mark has run, whatever was recorded since. What was
	// downloaded up to mark is there. f writes nothing that is uploaded.
	After(mark uint64, f func(p *compute.Params) error)
}

// Host is the processor that works at the same time as a GPU. Its memory can be read and written between the operations
// of a run, and it gives its weights back. It takes guesses itself, too, while it runs.
type Host interface {
	compute.Device
	compute.Foreseer
	compute.RowKeeper

	// Data returns a tensor's memory. [t.Rows·t.Cols]
	Data(t compute.Tensor) []float32
	// Over returns t with data as its memory.
	Over(t compute.Tensor, data []float32) compute.Tensor
	// FillSet makes token i's neurons those, counted from first, whose bits are set in words[i·perRow:].
	FillSet(s compute.Set, words []uint32, perRow, first int)
	// SetWords writes every token's neurons as bits.
	SetWords(s compute.Set, words []uint32, perRow int)
	// FillChoice makes every token's experts and weights those that DownloadChoice gives. A number that is no expert's,
	// which a faulty GPU may give, becomes expert 0 with the weight NaN.
	FillChoice(c compute.Choice, chosen []float32)
	// ChoiceData writes every token's experts' numbers, and then their weights, to chosen. [c.Rows·2·c.Used]
	ChoiceData(c compute.Choice, chosen []float32)

	// Restorable says how Restore gives m's neurons: as Rows, or as Columns, in blocks of m's type.
	Restorable(m *compute.Matrix) compute.Use
	// Restore returns neurons [from, to) of m as a file has them, in scratch, which has room for them, or where they lie.
	Restore(m *compute.Matrix, from, to int, scratch []byte) compute.Source
	// ReadAhead brings rows into the cache that a SparseFFN for one token will need, until done.
	ReadAhead(s compute.Set, w compute.SparseWeights, done func() bool)

	// GuessUnits reads units of m's bundle that are not in RAM, because a step may need them. The likeliest is first. They
	// are read after what the next Experts of the run in progress needs, and as many as guesses may cost. No result
	// depends on it.
	GuessUnits(m *compute.Matrix, units []int32)
	// Lend reserves some of the RAM for units, as files have them, for so many fetches at a time, of so many bytes each.
	// It is called before Keep, and reports whether there is enough.
	Lend(fetches int, bytes int64) bool
	// Lends reports whether Fetch can give m's rows.
	Lends(m *compute.Matrix) bool
	// Fetch begins to read units of m's bundle, as far as they are not in RAM. It waits for nothing.
	Fetch(m *compute.Matrix, units []int32) compute.UnitFetch
}
