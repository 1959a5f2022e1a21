package bench_test

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/bench"
)

// TestBatchedTable: the table is llama-batched-bench's. N_KV is B·(PP+TG), and speeds are over all sequences.
func TestBatchedTable(t *testing.T) {
	var out strings.Builder
	w, err := bench.NewBatchedWriter(&out, "md")
	if err != nil {
		t.Fatal(err)
	}
	row := bench.BatchedRow{Batched: bench.Batched{Prompt: 128, Gen: 32, Sequences: 4}, BatchedResult: bench.BatchedResult{PromptNS: 2e9, GenNS: 4e9}}
	if err := w.Write(row); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := `|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   128 |     32 |    4 |    640 |    2.000 |   256.00 |    4.000 |    32.00 |    6.000 |   106.67 |
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
