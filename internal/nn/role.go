package nn

// Role says what a tensor is for. Plans place tensors by their roles.
type Role int

// The roles.
const (
	InLayer         Role = iota // a token mixer, a norm, a router, shared experts: it goes where the layer's attention goes
	OfNeurons                   // each neuron of a feed-forward layer has a part of it
	OfExperts                   // each expert has a part of it
	OfPredictor                 // predicts a layer's neurons
	PredictsExperts             // predicts the neurons of experts: it goes where the experts go
	InTable                     // its rows are looked up, or it is used by the host: it stays in RAM
	InHead                      // computes before the layers or after them, with the head
)

// Purpose is a tensor's role, and the layer that it belongs to; -1: it belongs to none.
type Purpose struct {
	Role  Role
	Layer int
}

// Purposes returns what the tensors that were bound are for, by their names. Those that the program leaves in the file
// have none.
func (b *Binder) Purposes() map[string]Purpose { return b.purposes }

// as returns b for tensors of that role.
func (b *Binder) as(r Role) *Binder {
	of := *b
	of.role = r
	return &of
}
