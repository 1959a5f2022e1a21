package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	list, err := engines("./pi", []string{"peer -x=/bin/peer -x 1"})
	if err != nil || list[1].name != "peer -x" || len(list[1].args) != 3 {
		t.Fatalf("engines: %v, %v", list, err)
	}
	r := results{}
	for _, rate := range []string{"10", "30", "20"} {
		for _, e := range []string{"ours", "peer -x"} {
			if e != "ours" {
				rate += "0"
			}
			if err := r.add(e, []byte(`[{"n_threads":2,"n_prompt":0,"n_gen":8,"avg_ts":`+rate+`}]`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := table("m.gguf", list, r)
	if want := "| tg8, 2 threads | 20.0 (10.0–30.0) | 200.0 (100.0–300.0) | 0.10 |"; !strings.Contains(got, want) {
		t.Errorf("the table lacks %q:\n%s", want, got)
	}
	if err := r.add("ours", []byte("[]")); err == nil {
		t.Error("an empty result is accepted")
	}
	if _, err := engines("x", []string{"nameless"}); err == nil {
		t.Error("a peer without a command is accepted")
	}
}
