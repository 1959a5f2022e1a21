package gguf

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// keyed returns a File with allKinds, as it comes back from its bytes.
func keyed(t *testing.T) *File {
	t.Helper()
	head, _, err := encodeHeader("GGUF", allKinds, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("m.gguf", head)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGetters(t *testing.T) {
	f := keyed(t)
	for key, want := range map[string]uint64{"u8": 255, "u16": 65535, "u32": math.MaxUint32, "u64": math.MaxUint64} {
		if v, ok, err := f.Uint(key); v != want || !ok || err != nil {
			t.Errorf("Uint(%q) = %d, %v, %v", key, v, ok, err)
		}
	}
	for key, want := range map[string]float64{"f32": 1.5, "f64": -2.25e300, "i8": -128, "u8": 255} {
		if v, ok, err := f.Float(key); v != want || !ok || err != nil {
			t.Errorf("Float(%q) = %g, %v, %v", key, v, ok, err)
		}
	}
	for key, want := range map[string][]int32{"i32s": {-7, 8}, "u8s": {1, 2}, "i8s": {-1, 2}, "u16s": {1, 65535}, "u32s": {7}} {
		if v, ok, err := f.Int32s(key); !slices.Equal(v, want) || !ok || err != nil {
			t.Errorf("Int32s(%q) = %v, %v, %v", key, v, ok, err)
		}
	}
	if v, ok, err := f.Bool("bool"); !v || !ok || err != nil {
		t.Errorf("Bool = %v, %v, %v", v, ok, err)
	}
	if v, ok, err := f.String("string"); v != "Rüben — 甜菜\n" || !ok || err != nil {
		t.Errorf("String = %q, %v, %v", v, ok, err)
	}
	if v, ok, err := f.Strings("strings"); !slices.Equal(v, []string{"", "a"}) || !ok || err != nil {
		t.Errorf("Strings = %q, %v, %v", v, ok, err)
	}
	if v, ok, err := f.Float32s("f32s"); !slices.Equal(v, []float32{0.5, float32(math.Inf(1))}) || !ok || err != nil {
		t.Errorf("Float32s = %v, %v, %v", v, ok, err)
	}
}

// TestGettersRefuse: a wrong type is an error with file and key; a missing key is none.
func TestGettersRefuse(t *testing.T) {
	f := keyed(t)
	getters := map[string]func(string) (bool, error){
		"Uint":     func(k string) (bool, error) { _, ok, err := f.Uint(k); return ok, err },
		"Float":    func(k string) (bool, error) { _, ok, err := f.Float(k); return ok, err },
		"Bool":     func(k string) (bool, error) { _, ok, err := f.Bool(k); return ok, err },
		"String":   func(k string) (bool, error) { _, ok, err := f.String(k); return ok, err },
		"Strings":  func(k string) (bool, error) { _, ok, err := f.Strings(k); return ok, err },
		"Bools":    func(k string) (bool, error) { _, ok, err := f.Bools(k); return ok, err },
		"Float32s": func(k string) (bool, error) { _, ok, err := f.Float32s(k); return ok, err },
		"Int32s":   func(k string) (bool, error) { _, ok, err := f.Int32s(k); return ok, err },
	}
	wrong := map[string][]string{
		"Uint": {"i8", "f32", "f64", "bool", "u8s"}, "Float": {"string", "bool", "f32s"}, "Bool": {"string", "bools"}, "String": {"u8", "strings"},
		"Strings": {"string", "u8s", "nested"}, "Bools": {"bool", "strings", "nested"}, "Float32s": {"f32", "strings", "bools"},
		"Int32s": {"u64s", "i64s", "f32s", "strings", "i32", "nested"},
	}
	for name, get := range getters {
		if ok, err := get("absent"); ok || err != nil {
			t.Errorf("%s of an absent key: %v, %v", name, ok, err)
		}
		for _, key := range wrong[name] {
			_, err := get(key)
			if err == nil || !strings.HasPrefix(err.Error(), "m.gguf: ") || !strings.Contains(err.Error(), `"`+key+`"`) {
				t.Errorf("%s(%q): error %v", name, key, err)
			}
		}
	}
}

func TestOverride(t *testing.T) {
	f := keyed(t)
	for _, o := range [][3]string{{"u32", "int", "-5"}, {"new", "float", "2.5"}, {"string", "str", "x=y:z"}, {"bool", "bool", "false"}, {"new", "float", "3.5"}} {
		if err := f.Override(o[0], o[1], o[2]); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := f.Uint("u32"); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("Uint of -5: %v", err)
	}
	v, _, _ := f.Float("new")
	s, _, _ := f.String("string")
	b, ok, _ := f.Bool("bool")
	if v != 3.5 || s != "x=y:z" || b || !ok || len(f.Keys) != len(allKinds)+1 {
		t.Errorf("%g %q %v, %d keys", v, s, b, len(f.Keys))
	}
	for _, o := range [][3]string{{"k", "int", "1.5"}, {"k", "bool", "maybe"}, {"k", "float", "x"}, {"k", "u32", "1"}} {
		if err := f.Override(o[0], o[1], o[2]); err == nil || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("Override %v: %v", o, err)
		}
	}
}

// TestNumbersOfAnyType: numbers have the same meaning in every type.
func TestNumbersOfAnyType(t *testing.T) {
	for _, v := range []any{uint8(3), int8(3), uint16(3), int16(3), uint32(3), int32(3), uint64(3), int64(3), float32(3), float64(3)} {
		f := &File{index: map[string]int{}}
		f.Set("k", v)
		u, _, err := f.Uint("k")
		x, _, err2 := f.Float("k")
		b, _, err3 := f.Bool("k")
		if u != 3 || x != 3 || !b || err != nil || err2 != nil || err3 != nil {
			t.Errorf("%T: %d %g %v, %v %v %v", v, u, x, b, err, err2, err3)
		}
	}
	for _, v := range []any{
		[]uint8{0, 3}, []int8{0, 3}, []uint16{0, 3}, []int16{0, 3}, []uint32{0, 3}, []int32{0, 3}, []uint64{0, 3}, []int64{0, 3}, []float32{0, 3}, []float64{0, 3},
	} {
		f := &File{index: map[string]int{}}
		f.Set("k", v)
		i, _, err := f.Int32s("k")
		x, _, err2 := f.Float32s("k")
		b, _, err3 := f.Bools("k")
		if !slices.Equal(i, []int32{0, 3}) || !slices.Equal(x, []float32{0, 3}) || !slices.Equal(b, []bool{false, true}) || err != nil || err2 != nil || err3 != nil {
			t.Errorf("%T: %v %v %v, %v %v %v", v, i, x, b, err, err2, err3)
		}
	}
	f := &File{index: map[string]int{}}
	f.Set("k", []int32{}) // as a list without elements is written
	if s, ok, err := f.Strings("k"); len(s) != 0 || !ok || err != nil {
		t.Errorf("no strings: %v %v %v", s, ok, err)
	}
	for _, v := range []any{float32(0.5), math.Inf(1), math.NaN(), float64(1 << 63), -1.0} {
		f.Set("k", v)
		if n, _, err := f.Uint("k"); err == nil {
			t.Errorf("%v is %d", v, n)
		}
	}
}

// TestTextsOfAnyEncoding: a description in another encoding is read with U+FFFD for invalid UTF-8, a token unchanged.
func TestTextsOfAnyEncoding(t *testing.T) {
	f, err := Parse("m.gguf", start(3, 0, 2).key("d", kindString).text("caf\xe9 \xff\xfe!").key("t", kindArray).u32(kindString).u64(2).text("\xe9").text("é"))
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err := f.String("d"); d != "caf\uFFFD \uFFFD!" || err != nil {
		t.Errorf("%q, %v", d, err)
	}
	if s, _, err := f.Strings("t"); !slices.Equal(s, []string{"\xe9", "é"}) || err != nil {
		t.Errorf("%q, %v", s, err)
	}
}
