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

// TestBatchedPlan: what the plan expects stands in further columns.
func TestBatchedPlan(t *testing.T) {
	var out strings.Builder
	w, err := bench.NewBatchedWriter(&out, "md")
	if err != nil {
		t.Fatal(err)
	}
	for _, sequences := range []int{1, 4} {
		if err := w.Write(bench.BatchedRow{Batched: bench.Batched{Prompt: 128, Gen: 32, Sequences: sequences}, Planned: true, PromptExpected: 250, GenExpected: 12.5 * float64(sequences)}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"| plan PP t/s | plan TG t/s |", "|-------------|-------------|", "|      250.00 |       12.50 |", "|      250.00 |       50.00 |"} {
		if !strings.HasSuffix(lines[i], want) || len(lines[i]) != len(lines[0]) {
			t.Errorf("line %d is %q, want %q at its end", i, lines[i], want)
		}
	}
}
