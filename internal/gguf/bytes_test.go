package gguf

import "encoding/binary"

// raw builds files byte by byte from the specification, independently of the writer.
type raw []byte

func (b raw) u32(v uint32) raw { return binary.LittleEndian.AppendUint32(b, v) }
func (b raw) u64(v uint64) raw { return binary.LittleEndian.AppendUint64(b, v) }
func (b raw) text(s string) raw {
	return append(b.u64(uint64(len(s))), s...)
}

// start begins a file that announces its counts.
func start(version uint32, tensors, keys uint64) raw {
	return raw("GGUF").u32(version).u64(tensors).u64(keys)
}

// key adds a key and its value type; the value follows.
func (b raw) key(name string, kind uint32) raw { return b.text(name).u32(kind) }

// tensor adds a tensor's description.
func (b raw) tensor(name string, kind uint32, offset uint64, shape ...uint64) raw {
	b = b.text(name).u32(uint32(len(shape)))
	for _, d := range shape {
		b = b.u64(d)
	}
	return b.u32(kind).u64(offset)
}

// data pads to the alignment and adds n bytes that count up.
func (b raw) data(alignment, n int) raw {
	for len(b)%alignment != 0 {
		b = append(b, 0)
	}
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

// small returns a valid file with two keys and two tensors, 64 and 34 bytes of data.
func small(version uint32) raw {
	return start(version, 2, 2).
		key("general.architecture", kindString).text("llama").
		key("llama.block_count", kindUint32).u32(7).
		tensor("a", 0, 0, 8, 2).
		tensor("b", 8, 64, 32).
		data(32, 64+34)
}

// everyKind has a scalar and an array of each value type, and arrays in arrays.
func everyKind() raw {
	sizes := map[uint32]int{
		kindUint8: 1, kindInt8: 1, kindUint16: 2, kindInt16: 2, kindUint32: 4, kindInt32: 4, kindFloat32: 4, kindBool: 1,
		kindUint64: 8, kindInt64: 8, kindFloat64: 8,
	}
	b := start(3, 0, 12+12+1)
	for kind := uint32(kindUint8); kind <= kindFloat64; kind++ {
		one := func(b raw) raw {
			for i := range sizes[kind] {
				b = append(b, byte(1-i%2)) // 1, 0, 1, 0: also a bool
			}
			if kind == kindString {
				b = b.text("é")
			}
			return b
		}
		if kind == kindArray {
			b = b.key("nested", kindArray).u32(kindArray).u64(2)
			b = b.u32(kindUint32).u64(2).u32(5).u32(6)
			b = b.u32(kindString).u64(1).text("x")
			continue
		}
		name := string(rune('a' + kind))
		b = one(b.key(name, kind))
		b = one(one(b.key(name+".array", kindArray).u32(kind).u64(2)))
	}
	return b
}
