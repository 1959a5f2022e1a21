package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Every family, type, mode and device is asked about, under names that are unique.
func TestQuestions(t *testing.T) {
	names := map[string]bool{}
	models := map[string]*model{}
	for _, q := range questions(true) {
		if names[q.name] {
			t.Errorf("two questions are named %q", q.name)
		}
		if q.same != "" && !names[q.same] {
			t.Errorf("%q points to %q, which does not come before it", q.name, q.same)
		}
		if strings.ContainsAny(q.name, "\t\n") || strings.HasPrefix(q.name, "#") {
			t.Errorf("%q cannot stand in a record", q.name)
		}
		names[q.name] = true
		if m := q.model; m != nil {
			if have := models[m.name]; have != nil && have != m {
				t.Errorf("two models are named %q", m.name)
			}
			models[m.name] = m
			if err := m.spec.Check(); err != nil && !m.embedded() {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
	for _, f := range families() {
		for _, typ := range types() {
			for _, name := range []string{"off", "exact -nr", "exact -t 1", "exact -ub 24"} {
				if n := "cpu " + f + " " + typeName(typ) + " " + name; !names[n] {
					t.Errorf("nothing is asked about %q", n)
				}
			}
		}
		for _, n := range []string{"cpu " + f + " q4_0 prepared predict", "gpu " + f + " f16 exact some", "gpu " + f + " q4_0 prepared predict some"} {
			if !names[n] {
				t.Errorf("nothing is asked about %q", n)
			}
		}
	}
	for q := range names {
		if strings.HasPrefix(q, "gpu ") {
			delete(names, q)
		}
	}
	if got := len(questions(false)); got != len(names) {
		t.Errorf("without a GPU %d questions, with one %d others", got, len(names))
	}
}

// A spec of each type is written at rows that fill its blocks.
func TestSpecs(t *testing.T) {
	for _, typ := range []quant.Type{quant.Q4_K, quant.Q6_K} {
		if s := spec("llama", typ); s.Embd%typ.BlockElems() != 0 || s.FF%typ.BlockElems() != 0 {
			t.Errorf("%s: rows of %d and %d", typ, s.Embd, s.FF)
		}
	}
}

func TestDifferences(t *testing.T) {
	header := []field{{processorKey, "AVX2"}, {driverKey, "llvmpipe: a"}}
	older := record{header, []answer{{"a", "1"}, {"b", `text "x: y"`}, {"c", "3"}}}
	path := filepath.Join(t.TempDir(), "old.txt")
	if err := older.write(path); err != nil {
		t.Fatal(err)
	}
	back, err := read(path)
	if err != nil || !reflect.DeepEqual(*back, older) {
		t.Fatalf("read back: %+v, %v", back, err)
	}
	for _, c := range []struct {
		name  string
		newer record
		want  []string
		fails string
	}{
		{"the same in another order, and a new case", record{header, []answer{{"d", "4"}, {"c", "3"}, {"b", `text "x: y"`}, {"a", "1"}}}, nil, ""},
		{"one changed, one missing", record{header, []answer{{"a", "2"}, {"b", `text "x: y"`}}}, []string{"a:\n  old: 1\n  new: 2", "c: not in the new record"}, ""},
		{"another processor", record{[]field{{processorKey, "AVX2 AVX512"}, header[1]}, older.answers}, nil, "instruction sets differ"},
		{"another driver", record{[]field{header[0], {driverKey, ""}}, older.answers}, nil, "vulkan differ"},
	} {
		got, err := back.differences(&c.newer)
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if _, err := (&record{header: header}).differences(&older); err == nil {
		t.Error("a record without cases has no differences, and no error")
	}
	if err := os.WriteFile(path, []byte("# a: b\nno tab\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := read(path); err == nil || !strings.Contains(err.Error(), ":2:") {
		t.Errorf("a file that is no record: %v", err)
	}
}

// Labels, the order of fields, new fields and the old word for a GPU are no difference; a byte is.
func TestFigures(t *testing.T) {
	const old = `{"model": "a", "context": 512, "ram": 123456789012, "vram": [5, 6], "machine": {"GPUs": [{"Name": "x", "Budget": 7}]},
		"layers": [{"card": 0, "attention_on_card": true, "hot": 3}, {"card": -1, "attention_on_card": false, "hot": 3}]}`
	const renamed = `{"layers": [{"gpu": 0, "tier": 1, "attention_on_gpu": true, "hot": 3}, {"gpu": -1, "attention_on_gpu": false, "hot": 3}],
		"model": "b", "context": 512, "ram": 123456789012, "vram": [5, 6], "new": 9, "machine": {"GPUs": [{"name": "y", "budget": 7}]}}`
	want, err := figures([]byte(old))
	if err != nil || !strings.Contains(want, " hot=3x2 ") || !strings.Contains(want, "ram=123456789012 ") || !strings.Contains(want, "vram=5,6 ") || !strings.Contains(want, "budget=7 ") {
		t.Fatalf("%q, %v", want, err)
	}
	if got, err := figures([]byte(renamed)); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, change := range [][2]string{{"123456789012", "123456789013"}, {"true", "false"}, {`"hot": 3}]`, `"hot": 4}]`}, {"[5, 6]", "[5, 7]"}, {`"Budget": 7`, `"Budget": 8`}} {
		if got, err := figures([]byte(strings.Replace(old, change[0], change[1], 1))); err != nil || got == want {
			t.Errorf("%s instead of %s is no difference: %v", change[1], change[0], err)
		}
	}
	if got := repeats([]string{"0", "0", "5", "7", "7", "7"}); got != "0x2,5,7x3" {
		t.Errorf("repeats: %s", got)
	}
}

// Only the names and versions count, and not the words around them.
func TestLavapipe(t *testing.T) {
	const list = `0  RTX (discrete, 24.0 GiB, NVIDIA 570)
1  llvmpipe (LLVM 15.0.6, 256 bits) (software, 2.0 GiB, llvmpipe Mesa 22.3.6 (LLVM 15.0.6)): only where it is named, as lavapipe
`
	if got := lavapipe(list); got != "llvmpipe (LLVM 15.0.6, 256 bits), llvmpipe Mesa 22.3.6 (LLVM 15.0.6)" {
		t.Errorf("%q", got)
	}
	if got := lavapipe("no GPU\n"); got != "" {
		t.Errorf("%q where there is none", got)
	}
}

func TestFix(t *testing.T) {
	var v any
	text := `[{"threads": 2, "stream": 1, "rows": [{"bytes": 2304, "read": 5}]}]`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	fix(v)
	got, _ := json.Marshal(v)
	if string(got) != `[{"rows":[{"bytes":2304,"read":15000000000}],"stream":20000000000,"threads":2}]` {
		t.Errorf("%s", got)
	}
}

func TestPoint(t *testing.T) {
	list := []answer{{"a", "1"}, {"b", "1"}, {"c", "2"}, {"d", "1"}}
	point([]question{{name: "a"}, {name: "b", same: "a"}, {name: "c", same: "a"}, {name: "d"}}, list)
	want := []answer{{"a", "1"}, {"b", "the same as a"}, {"c", "2"}, {"d", "1"}}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("%v", list)
	}
}

func TestEach(t *testing.T) {
	var sum atomic.Int64
	if err := each(t.Context(), "", 100, 3, func(i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 4950 {
		t.Errorf("%d, %v", sum.Load(), err)
	}
	bad := errors.New("bad")
	if err := each(t.Context(), "", 100, 3, func(i int) error {
		if i == 50 {
			return bad
		}
		return nil
	}); err != bad {
		t.Errorf("%v, want the error of the fiftieth", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := each(ctx, "", 1, 1, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
