package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pickles are programs for a stack machine that may call any function of Python. This one runs only what torch.save
// writes for tensors and state dicts: it calls no names but those of its table, each instruction allocates at most as
// much as it reads, and errors name the offset.
//
// Source: Python's documentation of pickletools, and torch/serialization.py for what the names mean.

// Values on the stack are nil, bool, int64, float64, string, tuple, *list, *dict, global, *torchTensor, storage and
// mark.
type (
	tuple  []any
	list   struct{ items []any }
	dict   struct{ pairs []pair } // in the order of insertion
	pair   struct{ key, value any }
	global string // module.name
	mark   struct{}
)

// storage is a record of the archive that holds tensors' elements.
type storage struct {
	dtype string // as in safetensors
	key   string
	elems int64
}

// torchTensor is a view of a storage.
type torchTensor struct {
	storage        storage
	offset         int64 // elements
	shape, strides []int64
}

type unpickler struct {
	data  []byte
	at    int
	stack []any
	memo  map[uint32]any
}

// unpickle runs a pickle.
func unpickle(data []byte) (v any, err error) {
	u := &unpickler{data: data, memo: map[uint32]any{}}
	for {
		start := u.at
		op, err := u.bytes(1)
		if err != nil {
			return nil, fmt.Errorf("pickle, offset %d: %w", start, err)
		}
		if op[0] == '.' {
			if v, err = u.pop(); err == nil {
				return v, nil
			}
		} else {
			err = u.step(op[0])
		}
		if err != nil {
			return nil, fmt.Errorf("pickle, offset %d: %w", start, err)
		}
	}
}

// step runs one instruction.
func (u *unpickler) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		return u.skip(1)
	case 0x95: // FRAME
		return u.skip(8)
	case '(', ')', ']', '}', 'N', 0x88, 0x89:
		u.push(map[byte]any{'(': mark{}, ')': tuple{}, 'N': nil, 0x88: true, 0x89: false}[op])
		switch op {
		case ']':
			u.stack[len(u.stack)-1] = &list{}
		case '}':
			u.stack[len(u.stack)-1] = &dict{}
		}
		return nil
	case 'J', 'K', 'M', 0x8a, 'G':
		return u.number(op)
	case 'X', 0x8c, 'U':
		return u.text(op)
	case 'c', 0x93:
		return u.global(op)
	case 'q', 'r', 0x94:
		return u.remember(op)
	case 'h', 'j':
		return u.recall(op)
	case 't', 0x85, 0x86, 0x87:
		return u.tuple(op)
	case 'a', 'e', 's', 'u':
		return u.fill(op)
	case 'Q':
		return u.persistent()
	case 'R':
		return u.reduce()
	case 'b':
		return u.build()
	case 0x81:
		return u.object()
	}
	return fmt.Errorf("instruction %#02x has no place in saved tensors", op)
}

// bytes returns the next n of the pickle.
func (u *unpickler) bytes(n int) ([]byte, error) {
	if n < 0 || n > len(u.data)-u.at {
		return nil, fmt.Errorf("%d bytes are read where %d are left", n, len(u.data)-u.at)
	}
	u.at += n
	return u.data[u.at-n : u.at], nil
}

func (u *unpickler) skip(n int) error {
	_, err := u.bytes(n)
	return err
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

func (u *unpickler) pop() (any, error) {
	v, err := u.top()
	if err == nil {
		u.stack = u.stack[:len(u.stack)-1]
	}
	return v, err
}

// top returns the uppermost value, which must not be a mark.
func (u *unpickler) top() (any, error) {
	if len(u.stack) == 0 {
		return nil, fmt.Errorf("the stack is empty")
	}
	v := u.stack[len(u.stack)-1]
	if _, is := v.(mark); is {
		return nil, fmt.Errorf("a mark stands for a value")
	}
	return v, nil
}

// popMark takes the values above the uppermost mark, and the mark.
func (u *unpickler) popMark() (tuple, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, is := u.stack[i].(mark); is {
			items := slices.Clone(u.stack[i+1:])
			u.stack = u.stack[:i]
			return tuple(items), nil
		}
	}
	return nil, fmt.Errorf("a mark is missing")
}

// unsigned reads a little-endian number of n bytes.
func (u *unpickler) unsigned(n int) (uint64, error) {
	b, err := u.bytes(n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

func (u *unpickler) number(op byte) error {
	size := map[byte]int{'J': 4, 'K': 1, 'M': 2, 'G': 8}[op]
	if op == 0x8a { // LONG1: its size comes first
		n, err := u.unsigned(1)
		if err != nil {
			return err
		}
		if size = int(n); size > 8 {
			return fmt.Errorf("a number of %d bytes is too large", size)
		}
	}
	n, err := u.unsigned(size)
	if err != nil {
		return err
	}
	switch {
	case op == 'G':
		b := u.data[u.at-8 : u.at]
		u.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case op == 'J' || op == 0x8a && size > 0: // signed
		shift := 64 - 8*size
		u.push(int64(n<<shift) >> shift)
	default:
		u.push(int64(n))
	}
	return nil
}

func (u *unpickler) text(op byte) error {
	size := 1
	if op == 'X' {
		size = 4
	}
	n, err := u.unsigned(size)
	if err != nil {
		return err
	}
	b, err := u.bytes(int(n))
	if err != nil {
		return err
	}
	u.push(string(b))
	return nil
}

// global pushes a name; nothing is looked up before it is called.
func (u *unpickler) global(op byte) error {
	if op == 'c' {
		var parts [2]string
		for i := range parts {
			n := slices.Index(u.data[u.at:], '\n')
			if n < 0 {
				return fmt.Errorf("a name has no end")
			}
			parts[i] = string(u.data[u.at:][:n])
			u.at += n + 1
		}
		u.push(global(parts[0] + "." + parts[1]))
		return nil
	}
	name, err := u.pop()
	if err != nil {
		return err
	}
	module, err := u.pop()
	if err != nil {
		return err
	}
	n, isName := name.(string)
	m, isModule := module.(string)
	if !isName || !isModule {
		return fmt.Errorf("a name is not text")
	}
	u.push(global(m + "." + n))
	return nil
}

func (u *unpickler) remember(op byte) error {
	v, err := u.top()
	if err != nil {
		return err
	}
	n := uint64(len(u.memo))
	if op != 0x94 {
		if n, err = u.unsigned(map[byte]int{'q': 1, 'r': 4}[op]); err != nil {
			return err
		}
	}
	u.memo[uint32(n)] = v
	return nil
}

func (u *unpickler) recall(op byte) error {
	n, err := u.unsigned(map[byte]int{'h': 1, 'j': 4}[op])
	if err != nil {
		return err
	}
	v, ok := u.memo[uint32(n)]
	if !ok {
		return fmt.Errorf("value %d is used before it is there", n)
	}
	u.push(v)
	return nil
}

func (u *unpickler) tuple(op byte) error {
	if op == 't' {
		items, err := u.popMark()
		if err == nil {
			u.push(items)
		}
		return err
	}
	items := make(tuple, op-0x84)
	for i := range items {
		v, err := u.pop()
		if err != nil {
			return err
		}
		items[len(items)-1-i] = v
	}
	u.push(items)
	return nil
}

// fill adds to a list (a, e) or a dict (s, u), one item or all above a mark.
func (u *unpickler) fill(op byte) (err error) {
	var items tuple
	if op == 'e' || op == 'u' {
		items, err = u.popMark()
	} else {
		items = make(tuple, map[byte]int{'a': 1, 's': 2}[op])
		for i := len(items) - 1; i >= 0 && err == nil; i-- {
			items[i], err = u.pop()
		}
	}
	if err != nil {
		return err
	}
	to, err := u.top()
	if err != nil {
		return err
	}
	switch to := to.(type) {
	case *list:
		if op == 'a' || op == 'e' {
			to.items = append(to.items, items...)
			return nil
		}
	case *dict:
		if (op == 's' || op == 'u') && len(items)%2 == 0 {
			for i := 0; i < len(items); i += 2 {
				to.pairs = append(to.pairs, pair{items[i], items[i+1]})
			}
			return nil
		}
	}
	return fmt.Errorf("items are added to what does not take them")
}

// persistent pushes the storage that the tuple on top describes: ("storage", type, key, device, elements).
func (u *unpickler) persistent() error {
	v, err := u.pop()
	if err != nil {
		return err
	}
	id, _ := v.(tuple)
	if len(id) < 5 || id[0] != "storage" {
		return fmt.Errorf("a reference is not to a storage")
	}
	typ, isType := id[1].(global)
	key, isKey := id[2].(string)
	elems, isCount := id[4].(int64)
	if !isType || !isKey || !isCount || elems < 0 {
		return fmt.Errorf("a storage is not described by type, key and number of elements")
	}
	dtype, ok := map[global]string{
		"torch.FloatStorage": "F32", "torch.HalfStorage": "F16", "torch.BFloat16Storage": "BF16", "torch.DoubleStorage": "F64",
		"torch.LongStorage": "I64", "torch.IntStorage": "I32", "torch.ShortStorage": "I16", "torch.CharStorage": "I8",
		"torch.ByteStorage": "U8", "torch.BoolStorage": "BOOL",
	}[typ]
	if !ok {
		return fmt.Errorf("storages of type %.80q are not supported", string(typ))
	}
	u.push(storage{dtype, key, elems})
	return nil
}

// reduce calls a name with arguments.
func (u *unpickler) reduce() error {
	v, err := u.pop()
	if err != nil {
		return err
	}
	name, err := u.pop()
	if err != nil {
		return err
	}
	f, isName := name.(global)
	args, isTuple := v.(tuple)
	if !isName || !isTuple {
		return fmt.Errorf("a call is not a name with arguments")
	}
	out, err := call(f, args)
	if err != nil {
		return err
	}
	u.push(out)
	return nil
}

func call(f global, args tuple) (any, error) {
	switch f {
	case "collections.OrderedDict":
		if len(args) == 0 {
			return &dict{}, nil
		}
	case "torch._utils._rebuild_tensor_v2":
		return rebuild(args)
	case "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state":
		if len(args) > 0 {
			if t, ok := args[0].(*torchTensor); ok {
				return t, nil
			}
		}
	case "torch._tensor._rebuild_from_type_v2": // (function, type, arguments, state)
		if len(args) == 4 && args[0] == any(global("torch._utils._rebuild_tensor_v2")) {
			if inner, ok := args[2].(tuple); ok {
				return rebuild(inner)
			}
		}
	default:
		return nil, fmt.Errorf("%.80q is called, which is no part of tensors; save the model's state_dict()", string(f))
	}
	return nil, fmt.Errorf("%.80q is called with arguments that it does not take", string(f))
}

// rebuild makes a tensor of (storage, offset, shape, strides, …).
func rebuild(args tuple) (*torchTensor, error) {
	t := &torchTensor{}
	fail := fmt.Errorf("a tensor is not described by storage, offset, shape and strides")
	if len(args) < 4 {
		return nil, fail
	}
	var ok [4]bool
	t.storage, ok[0] = args[0].(storage)
	t.offset, ok[1] = args[1].(int64)
	t.shape, ok[2] = counts(args[2])
	t.strides, ok[3] = counts(args[3])
	if slices.Contains(ok[:], false) || t.offset < 0 || len(t.shape) != len(t.strides) {
		return nil, fail
	}
	return t, nil
}

// counts returns a tuple's numbers, none of them negative.
func counts(v any) ([]int64, bool) {
	items, ok := v.(tuple)
	out := make([]int64, len(items))
	for i, item := range items {
		n, is := item.(int64)
		if !is || n < 0 {
			return nil, false
		}
		out[i] = n
	}
	return out, ok
}

// build gives an object its state. Dicts and tensors have notes there (versions of modules), which are passed over.
func (u *unpickler) build() error {
	if _, err := u.pop(); err != nil {
		return err
	}
	v, err := u.top()
	if err != nil {
		return err
	}
	switch v.(type) {
	case *dict, *torchTensor:
		return nil
	}
	return fmt.Errorf("state is given to what has none")
}

// object returns a Python object of some class.
func (u *unpickler) object() error {
	if _, err := u.pop(); err != nil {
		return err
	}
	v, err := u.pop()
	if err != nil {
		return err
	}
	name, _ := v.(global)
	return fmt.Errorf("an object of class %.80q; save the model's state_dict() instead of the model", strings.TrimPrefix(string(name), "__main__."))
}
