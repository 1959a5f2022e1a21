package compute

import "reflect"

// Op is an operation of a forward pass with its operands: a pointer to one of the structs in ops_*.go, which are its
// only description. Devices compute it in their method of Operations. Code that forwards, records, compares or traces
// operations handles all of them alike through Visit.
type Op interface {
	// On calls d's method for the operation.
	On(d Operations)
	// Visit passes the operands that live on a device to v, in a fixed order. Absent ones are passed too: tensors and
	// sets without Mem, nil matrices and vectors.
	Visit(v Visitor)
}

// Visitor sees an operation's operands, and may replace them.
type Visitor interface {
	Tensor(t *Tensor, a Access)
	Set(s *Set, a Access)
	Choice(c *Choice, a Access)
	Matrix(m **Matrix)
	Vector(v **Vector)
	Cache(c **Cache, layer *int)
}

// Access says what an operation does with a tensor, a set or a choice.
type Access int

// The kinds of access. Scratch memory counts as written.
const (
	Read Access = 1 << iota
	Write
	ReadWrite = Read | Write
)

// Clone returns a copy of op, which an executor reuses for its next operation of the same kind once Do has returned.
func Clone(op Op) Op {
	c := reflect.New(reflect.TypeOf(op).Elem())
	c.Elem().Set(reflect.ValueOf(op).Elem())
	return c.Interface().(Op)
}

// Name returns op's name: that of its struct and of its method of Verbs.
func Name(op Op) string { return reflect.TypeOf(op).Elem().Name() }

// Executor runs operations: a CPU at once, a GPU when it submits the recording.
type Executor interface {
	// Do does op, which belongs to the caller again when Do returns.
	Do(op Op)
	// Host ends what may be queued and calls f, which may Read tensors: for observers, not for the token's path. An
	// error of f's is an error of the run.
	Host(f func() error)
	Foreseer
}

// Verbs are the operations as methods, so that a forward pass reads like the paper. A method fills in its operation and
// has the executor do it; a call allocates nothing. Shapes are given with the operations, where n is the number of
// tokens in the step.
type Verbs struct{ calls *calls }

// NewVerbs returns the verbs of an executor.
func NewVerbs(to Executor) Verbs { return Verbs{&calls{Executor: to}} }

// Executor returns what does the operations.
func (v Verbs) Executor() Executor { return v.calls.Executor }

// Do does op.
func (v Verbs) Do(op Op) { v.calls.Do(op) }

// Host finishes queued operations and calls f, which may Read tensors. It is for observers, not for each token. If f
// fails, the run fails.
func (v Verbs) Host(f func() error) { v.calls.Host(f) }

// Turner is an executor of several processors.
type Turner interface {
	// Turn makes the CPU call f in order, without waiting for operations queued for other processors. An error of f is
	// an error of the run.
	Turn(f func() error)
}

// Turn has the CPU call f in its order of work. It is Host on an executor of one processor.
func (v Verbs) Turn(f func() error) {
	if t, ok := v.calls.Executor.(Turner); ok {
		t.Turn(f)
		return
	}
	v.calls.Host(f)
}

// Foresee forwards a prediction.
func (v Verbs) Foresee(g Guess) { v.calls.Foresee(g) }

// ForeseeExperts forwards a prediction.
func (v Verbs) ForeseeExperts(g ExpertGuess) { v.calls.ForeseeExperts(g) }
