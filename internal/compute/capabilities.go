package compute

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// What a device or its executor may be able to do besides Device and Executor. Whoever needs a capability asks for it
// by a type assertion and does without it where it is missing.

// Recorder is a GPU that can record a segment without running it.
type Recorder interface {
	Device
	// Record makes what later runs of seg need: what cannot be had is this error instead of theirs.
	Record(seg Segment, p *Params, body func(Verbs)) error
}

// Shaper is a device that records segments, and would rather run a recording with rows to spare than make another.
type Shaper interface {
	// Shape returns the segment to run a step of seg's rows as: one with room for as many of each kind or more. Where
	// seg has none of a kind, it has none either. No step is larger than most in tokens and rows of logits.
	Shape(seg, most Segment) Segment
	// Spare returns how many rows a segment that Shape returns may have beyond most, the tokens of the largest step.
	Spare(most int) int
}

// Overlapper is the executor of a GPU that works at the same time as another processor, the host. The functions that it
// returns are valid in every replay.
type Overlapper interface {
	Executor
	// Overlap waits for what was recorded so far and calls host, while the GPU computes what during, which may be nil,
	// records. What is recorded afterwards sees what host wrote. An error of host's ends the run.
	Overlap(host func(p *Params) error, during func())
	// Download copies t to the host, which finds it in the next Overlap or, if none follows, when the segment has run:
	// [t.Rows·t.Cols].
	Download(t Tensor) func() []float32
	// DownloadSet does so with a set's bits: token i's are words[i·perRow:].
	DownloadSet(s Set) func() (words []uint32, perRow int)
	// Upload fills t with what the host of an earlier Overlap writes to the returned memory: [t.Rows·t.Cols].
	Upload(t Tensor) func() []float32
	// UploadSet does so with a set's bits.
	UploadSet(s Set) func() (words []uint32, perRow int)
	// DownloadChoice does so with a choice: [c.Rows, 2·c.Used] of each token its experts' numbers, then their weights.
	DownloadChoice(c Choice) func() []float32
	// UploadChoice fills c so.
	UploadChoice(c Choice) func() []float32
}

// Host is the processor that works at the same time as a GPU.
type Host interface {
	Device
	// Data returns a tensor's memory. [t.Rows·t.Cols]
	Data(t Tensor) []float32
	// Over returns t with data as its memory.
	Over(t Tensor, data []float32) Tensor
	// FillSet makes token i's neurons those, counted from first, whose bits are set in words[i·perRow:].
	FillSet(s Set, words []uint32, perRow, first int)
	// SetWords writes every token's neurons as bits.
	SetWords(s Set, words []uint32, perRow int)
	// FillChoice makes every token's experts and weights those that DownloadChoice gives. A number that is no expert's,
	// which a faulty GPU may give, becomes expert 0 with the weight NaN.
	FillChoice(c Choice, chosen []float32)
	ChoiceReader
}

// ChoiceReader is a device whose choices can be read while a step runs.
type ChoiceReader interface {
	// ChoiceData writes every token's experts' numbers, and then their weights, to chosen. [c.Rows·2·c.Used]
	ChoiceData(c Choice, chosen []float32)
}

// Foreseer is an executor that waits in every layer, for another processor or for a disk: a guess at the next layer's
// neurons lets it bring their rows into its cache, or into RAM, meanwhile. Nothing that is computed depends on the guess.
type Foreseer interface {
	// Foresee says, before a layer's SparseFFN, how the next layer's set can be guessed. Once that SparseFFN is done,
	// the content of g.H, g.Set, g.Hidden and g.Logits is lost.
	Foresee(g Guess)
}

// Guess is the next layer's predictor applied to this layer's residual, which differs little from its own input; n is
// at most FewTokens.
type Guess struct {
	X              Tensor  // [n, n_embd] the residual
	Norm           *Vector // [n_embd] of the RMSNorm before the predictor; nil: it reads X
	Eps            float32
	H              Tensor // [n, n_embd] scratch
	Set            Set    // scratch, like the two below
	Hidden, Logits Tensor // [n, FC1.Rows], [n, FC2.Rows]
	FC1, FC2       *Matrix
	Weights        SparseWeights // the next layer's
}

// Visit passes the operands that live on a device to v, as Op.Visit does.
func (g *Guess) Visit(v Visitor) {
	p := Predict{g.Set, g.X, g.Hidden, g.Logits, g.FC1, g.FC2}
	p.Visit(v)
	g.Set, g.X, g.Hidden, g.Logits, g.FC1, g.FC2 = p.Set, p.X, p.Hidden, p.Logits, p.FC1, p.FC2
	v.Tensor(&g.H, Write)
	v.Vector(&g.Norm)
}

// ExpertForeseer is an executor that may have to wait for experts: a guess at those of the next layer lets it ask for
// them earlier. Nothing that is computed depends on the guess.
type ExpertForeseer interface {
	// ForeseeExperts says, before a layer's Experts, how the choice of the next layer's experts can be guessed.
	ForeseeExperts(g ExpertGuess)
}

// ExpertGuess is the next layer's router applied to the RMSNorm of this layer's residual, which differs little from the
// residual that the next layer's router reads.
type ExpertGuess struct {
	X          Tensor  // [n, n_embd] the residual
	Norm       *Vector // [n_embd]
	Eps        float32
	Router     *Matrix // [experts, n_embd]
	RouterBias *Vector // [experts] or nil
	Bias       *Vector // [experts] as Route's, or nil
	Used       int     // experts of a token
	Count      int     // of the layer
	How        Routing
	Weights    ExpertWeights // the next layer's
}

// Idler is an Overlapper that can have the host do something while it waits.
type Idler interface {
	Overlapper
	// Idles reports whether cores and memory have nothing to do while the host waits; they have where the GPU uses them
	// itself.
	Idles() bool
	// Meanwhile has the host call f while it waits in the next Overlap. done reports whether the wait is over; ready
	// reports whether what ran during the Overlap before has run, so that its downloads are there.
	Meanwhile(f func(ready, done func() bool))
}

// AheadReader is a Host that can bring weights into its cache.
type AheadReader interface {
	// ReadAhead reads rows that a SparseFFN for one token will need, until done.
	ReadAhead(s Set, w SparseWeights, done func() bool)
}

// Streamer is a GPU to which weights can be sent in the middle of a segment.
type Streamer interface {
	// StreamBuffer allocates GPU memory for matrices of size bytes together.
	StreamBuffer(size int64) (any, error)
	// StreamedBytes returns what a row of so many elements of type t takes there, at most.
	StreamedBytes(t quant.Type, elements int) int64
}

// WeightUploader is an Overlapper that can send weights.
type WeightUploader interface {
	Overlapper
	// Feed has the host call fill as soon as nothing reads the host memory of buffer, of a Streamer, any more: unlike an
	// Overlap's host it does not wait for what was recorded so far, so that it works ahead of the GPU. Fill calls the
	// Filler of the UploadWeights that follows.
	Feed(buffer any, fill func(p *Params) error)
	// UploadWeights makes buffer hold matrices from here on. The host of an earlier Overlap or Feed fills in their data.
	// What is recorded during an Overlap may fill one buffer while it computes with another's matrices; a later turn of
	// the host comes when they are there.
	UploadWeights(buffer any, weights []Sent) ([]*Matrix, Filler)
	// UploadPages brings pages into a cache of one layer. In each run the host calls find, which returns their numbers,
	// and then read for each of them, on several goroutines: it returns the page as ReadPage does, in scratch, which
	// has room for it. As in Feed the host does not wait for what was recorded so far.
	UploadPages(c *Cache, find func(p *Params) []int32, read func(page int32, scratch []byte) error)
	// Mark returns the place that the recording has reached, for After.
	Mark() uint64
	// After has the host call f when what was recorded up to mark has run, whatever was recorded since. What was
	// downloaded up to mark is there. f writes nothing that is uploaded.
	After(mark uint64, f func(p *Params) error)
}

// Sent describes a matrix that is sent to a GPU: Source without Data. It may be a part of a larger one, rows from First
// on of Of rows, whose products are those columns of an output for all; 0: it is the whole.
type Sent struct {
	Source
	Use       Use
	First, Of int
}

// Filler takes the data of matrices that are sent.
type Filler interface {
	// Fill takes matrix i's data as a file has them.
	Fill(i int, data []byte)
	// FillRows takes them row by row: row returns one of them as a file has it, in scratch, which has room for it, or
	// where it lies. It is called on several goroutines.
	FillRows(i int, row func(row int, scratch []byte) []byte)
	// FillPlanes takes them row by row as a PlaneKeeper gives them, by write, which is called on several goroutines. It
	// reports whether the device takes the matrix's type so.
	FillPlanes(i int, write func(row int, planes [][]byte)) bool
}

// AbsentRow is the number of a row that nobody reads.
const AbsentRow = -1

// FillFrom has rows of w, as host keeps them, fill in matrix i of f, in the quickest way that both know. from returns
// the number of a row in w, or AbsentRow.
func FillFrom(f Filler, i int, host RowKeeper, w *Matrix, from func(row int) int) {
	if k, ok := host.(PlaneKeeper); ok && k.HasPlanes(w) && f.FillPlanes(i, func(row int, planes [][]byte) {
		if at := from(row); at != AbsentRow {
			k.Planes(w, at, planes)
		}
	}) {
		return
	}
	f.FillRows(i, func(row int, scratch []byte) []byte {
		at := from(row)
		if at == AbsentRow {
			return scratch
		}
		return host.Rows(w, at, at+1, scratch).Data
	})
}

// Tuner is a device that chooses, by measuring, among kernels that give the same bytes.
type Tuner interface {
	// Tune chooses for the weights that the device holds. It is called once they are loaded.
	Tune()
}

// Restorer is a Host that gives weights back in the layout of a file.
type Restorer interface {
	// Restorable says how Restore gives m's neurons: as Rows, or as Columns, in blocks of m's type.
	Restorable(m *Matrix) Use
	// Restore returns neurons [from, to) of m, in scratch, which has room for them, or where they lie.
	Restore(m *Matrix, from, to int, scratch []byte) Source
}

// Rehearser is a device that must know the largest steps in advance.
type Rehearser interface {
	// Steps returns the numbers of tokens, at most most, of the steps that together need what any step does; the
	// largest is the first.
	Steps(most int) []int
	// Rehearse prepares the segments that f runs, without running them.
	Rehearse(f func() error) error
}

// RowReplacer is a GPU that takes new rows into matrices that it holds while it computes with their others.
type RowReplacer interface {
	// StagedBytes returns the host memory that n rows of m pass through.
	StagedBytes(m *Matrix, n int) int64
	// RowStage allocates so many bytes of it.
	RowStage(bytes int64) (RowStage, error)
	// CopiesBeside reports whether rows come by a queue of their own, while the GPU computes; else a run waits for what
	// was passed on before it.
	CopiesBeside() bool
}

// RowStage is host memory that rows pass through on their way into matrices.
type RowStage interface {
	// Put stages rows, src's, that are to lie in m from row first on. It may be called while the device works, on any
	// goroutine.
	Put(m *Matrix, first int, src Source)
	// Send passes on at most so many bytes of what was put, if what it passed on before has arrived, and returns how
	// many it did and whether all that was put has arrived. It waits for nothing, belongs to the device's goroutine,
	// and is called between runs; Put is not called meanwhile, nor again before everything has arrived.
	Send(most int64) (sent int64, arrived bool, err error)
}

// RowKeeper is a host whose rows can be read while it computes.
type RowKeeper interface {
	// KeepsRows reports whether Rows can give m's.
	KeepsRows(m *Matrix) bool
	// Rows returns rows [from, to) of m as a file has them, in scratch, which has room for them, or where they lie. It
	// may be called on any goroutine.
	Rows(m *Matrix, from, to int, scratch []byte) Source
}

// PlaneKeeper is a RowKeeper that can give rows of some types as GPUs hold them, in planes: of each block of 32 elements
// its bytes of eight-bit quants, or of the lower four bits, those of elements i and i+16 in byte i; then, of types with
// more bits, the bits above, a word for each of them, in which bits v of the bytes are of elements 4v…, or two words, in
// which bit pairs f of the bytes of word h are of elements 4(2f+h)…; then the scales as a file has them: a half for each
// block, or those of 256 elements, and, where a file has it elsewhere, their unit. Instead of a row it is a group of 32
// columns, which share scales, where these are neurons: the neurons' blocks over the outputs, then a half for each output.
type PlaneKeeper interface {
	RowKeeper
	// HasPlanes reports whether Planes can give m's rows.
	HasPlanes(m *Matrix) bool
	// Planes writes a row of m. It may be called on any goroutine.
	Planes(m *Matrix, row int, planes [][]byte)
}

// ExpertUse counts uses of an expert by a token, in layers with slots: of experts in a slot, and of others.
type ExpertUse struct{ Hits, Misses int64 }

// Add adds other uses.
func (u *ExpertUse) Add(v ExpertUse) {
	u.Hits += v.Hits
	u.Misses += v.Misses
}

// SlotUse counts what a device's slots for experts did since the model was loaded.
type SlotUse struct {
	ExpertUse
	Promotions int64 // experts that were copied to the GPU
	Bytes      int64 // that this took
}

// Add adds what another device counted.
func (u *SlotUse) Add(v SlotUse) {
	u.ExpertUse.Add(v.ExpertUse)
	u.Promotions += v.Promotions
	u.Bytes += v.Bytes
}

// Since returns what was counted after then, an earlier state.
func (u SlotUse) Since(then SlotUse) SlotUse {
	return SlotUse{ExpertUse{u.Hits - then.Hits, u.Misses - then.Misses}, u.Promotions - then.Promotions, u.Bytes - then.Bytes}
}

// SlotUser is a device whose experts follow the text.
type SlotUser interface {
	// SlotUse returns what its slots did until now. It is called between runs.
	SlotUse() SlotUse
}

// CoreSharer is a device that computes on the CPU's cores and uses fewer of them where other programs keep them busy.
type CoreSharer interface {
	// Yielded returns the time that its threads have left cores to other programs, summed over threads, and the number
	// of threads.
	Yielded() (sum time.Duration, threads int)
}

// LatentExpander is a device of which some layers may have AttendLatent.
type LatentExpander interface {
	// ExpandsLatent reports whether layers do whose part of the cache lies in RAM.
	ExpandsLatent() bool
}
