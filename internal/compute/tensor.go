package compute

// Tensor is an activation [Rows, Cols] of float32 on a device. It is a view: its
// memory belongs to the device and lives until the device is closed.
type Tensor struct {
	Rows, Cols int
	Outputs    bool // rows are those of Params.Out, in that order, not all of the step's tokens
	Mem        any  // the device's own handle
}

// First returns the view of t's first n rows.
func (t Tensor) First(n int) Tensor { t.Rows = n; return t }

// Like returns a view of t's first rows, of the same number and kind as x's.
func (t Tensor) Like(x Tensor) Tensor {
	t.Rows, t.Outputs = x.Rows, x.Outputs
	return t
}

// Split is t seen as rows of cols elements each: [Rows·Cols/cols, cols]. Heads are rows this way.
func (t Tensor) Split(cols int) Tensor {
	t.Rows, t.Cols = t.Rows*t.Cols/cols, cols
	return t
}

// Set holds, for each of Rows tokens, which of N neurons are computed. With a nil Mem all are.
type Set struct {
	Rows, N int
	Outputs bool // as Tensor.Outputs
	Mem     any  // the device's own handle
}

// First returns the view of the first n tokens' sets.
func (s Set) First(n int) Set { s.Rows = n; return s }

// Choice holds, for each of Rows tokens, its Used experts out of N, the highest ranked first, and the weight of each.
// Only Route fills it, so expert numbers are always below N.
type Choice struct {
	Rows, Used, N int
	Outputs       bool // as Tensor.Outputs
	Mem           any  // the device's own handle
}

// First returns the view of the first n tokens' choices.
func (c Choice) First(n int) Choice { c.Rows = n; return c }
