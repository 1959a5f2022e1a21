package compute

// What passes between a processor that has weights and a GPU that computes with them. See package hybrid.

// RowKeeper is a processor that can return rows of its matrices while it computes. Its methods may be called on any
// goroutine.
type RowKeeper interface {
	// KeepsRows reports whether Rows can return m's rows.
	KeepsRows(m *Matrix) bool
	// Rows returns rows [from, to) of m as a file stores them. The result may be in scratch, which has room for them.
	Rows(m *Matrix, from, to int, scratch []byte) Source
	// HasPlanes reports whether Planes can give m's rows.
	HasPlanes(m *Matrix) bool
	// Planes writes a row of m in planes, as GPUs store it. The first plane has, for each block of 32 elements, the
	// bytes of eight-bit quants, or of the lower four bits, elements i and i+16 in byte i. Types with more bits have
	// the upper bits next: for each block a word in which bits v of the bytes belong to elements 4v…, or two words h in
	// which bit pairs f of the bytes belong to elements 4(2f+h)…. Then come the scales as a file stores them: a half
	// for each block, or the scales of 256 elements, and their unit if a file stores it elsewhere. If columns are
	// neurons, a group of 32 columns that share scales takes the place of a row: the neurons' blocks over the outputs,
	// then a half for each output.
	Planes(m *Matrix, row int, planes [][]byte)
}

// Sent describes a matrix that is sent to a GPU: a Source without Data. It may be a part of a larger matrix: rows from
// First on, out of Of. Its products are then those columns of the whole output. If Of is 0, it is the whole.
type Sent struct {
	Source
	Use       Use
	First, Of int
}

// Filler takes the data of matrices that are sent.
type Filler interface {
	// Fill takes matrix i's data as a file has them.
	Fill(i int, data []byte)
	// FillRows fills in matrix i row by row. row returns one row as a file stores it, perhaps in scratch, which has
	// room for it. FillRows calls it on several goroutines.
	FillRows(i int, row func(row int, scratch []byte) []byte)
	// FillPlanes takes them row by row as RowKeeper.Planes gives them, by write, which is called on several goroutines. It
	// reports whether the device takes the matrix's type so.
	FillPlanes(i int, write func(row int, planes [][]byte)) bool
}

// AbsentRow is the number of a row that nobody reads.
const AbsentRow = -1

// FillFrom has rows of w, as host keeps them, fill in matrix i of f, in the quickest way that both know. from returns
// the number of a row in w, or AbsentRow.
func FillFrom(f Filler, i int, host RowKeeper, w *Matrix, from func(row int) int) {
	if host.HasPlanes(w) && f.FillPlanes(i, func(row int, planes [][]byte) {
		if at := from(row); at != AbsentRow {
			host.Planes(w, at, planes)
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

// RowStage is host memory that rows pass through on their way into matrices.
type RowStage interface {
	// Put stages src as the rows of m from row first on. It may be called while the device works, on any goroutine.
	Put(m *Matrix, first int, src Source)
	// Send forwards at most most bytes of the put data, if the earlier ones have arrived. It returns how many bytes it
	// forwarded, and whether everything has arrived. It does not wait. It is called on the device's goroutine and
	// between runs. Put must not be called during Send, nor again until everything has arrived.
	Send(most int64) (sent int64, arrived bool, err error)
}

// UnitFetch is units that are being read, or have been. It must be released, also after an error.
type UnitFetch interface {
	// Wait waits until all units are there.
	Wait() error
	// Row returns a row of the i-th unit's part of m as a file has it, in scratch, which has room for it, or in the
	// device's memory. It is called after Wait and before the device does anything else, on any goroutine.
	Row(m *Matrix, i, row int, scratch []byte) []byte
	Release()
}
