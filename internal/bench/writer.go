package bench

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Model is what a row says about the file.
type Model struct {
	Type   string // "llama 8B Q4_0"
	Bytes  int64  // of weights
	Params int64
}

// Describe reads a Model off f: architecture, parameters and the type that most weights have.
func Describe(f *gguf.File) Model {
	var m Model
	byType := map[string]int64{}
	for _, t := range f.Tensors {
		m.Bytes += int64(len(t.Data))
		m.Params += int64(t.Elems())
		byType[t.Type.String()] += int64(t.Elems())
	}
	arch, _, _ := f.String("general.architecture")
	most, typ := int64(-1), ""
	for name, n := range byType {
		if n > most || n == most && name < typ {
			most, typ = n, name
		}
	}
	m.Type = fmt.Sprintf("%s %s %s", arch, size(m.Params), typ)
	return m
}

func size(params int64) string {
	if params >= 1e9 {
		return fmt.Sprintf("%.1fB", float64(params)/1e9)
	}
	return fmt.Sprintf("%.1fM", float64(params)/1e6)
}

// Row is one timed test.
type Row struct {
	Test
	Samples  []int64 // nanoseconds
	Threads  int
	Batch    int
	UBatch   int
	NoRepack bool
	Commit   string
	CPU      string
	File     string
	Model    Model
	Time     time.Time
}

// record is a Row in llama-bench's JSON and CSV fields; those of other back ends are left out.
type record struct {
	Commit   string    `json:"build_commit"`
	Number   int       `json:"build_number"` // none here; readers of llama-bench's files expect the field
	CPU      string    `json:"cpu_info"`
	GPU      string    `json:"gpu_info"`
	Backends string    `json:"backends"`
	File     string    `json:"model_filename"`
	Type     string    `json:"model_type"`
	Bytes    int64     `json:"model_size"`
	Params   int64     `json:"model_n_params"`
	Batch    int       `json:"n_batch"`
	UBatch   int       `json:"n_ubatch"`
	Threads  int       `json:"n_threads"`
	TypeK    string    `json:"type_k"`
	TypeV    string    `json:"type_v"`
	GPULayer int       `json:"n_gpu_layers"`
	MMap     bool      `json:"use_mmap"`
	Repack   bool      `json:"repack"`
	Prompt   int       `json:"n_prompt"`
	Gen      int       `json:"n_gen"`
	Depth    int       `json:"n_depth"`
	Time     string    `json:"test_time"`
	AvgNS    int64     `json:"avg_ns"`
	StddevNS int64     `json:"stddev_ns"`
	AvgTS    float64   `json:"avg_ts"`
	StddevTS float64   `json:"stddev_ts"`
	SampleNS []int64   `json:"samples_ns"`
	SampleTS []float64 `json:"samples_ts"`
}

func (r Row) record() record {
	ns := make([]float64, len(r.Samples))
	for i, v := range r.Samples {
		ns[i] = float64(v)
	}
	avgNS, sdNS := MeanSD(ns)
	avgTS, sdTS, each := r.Rate(r.Samples)
	return record{
		Commit: r.Commit, CPU: r.CPU, Backends: "CPU", File: r.File, Type: r.Model.Type, Bytes: r.Model.Bytes, Params: r.Model.Params,
		Batch: r.Batch, UBatch: r.UBatch, Threads: r.Threads, TypeK: "f16", TypeV: "f16", MMap: r.NoRepack, Repack: !r.NoRepack,
		Prompt: r.Prompt, Gen: r.Gen, Depth: r.Depth, Time: r.Time.Format(time.RFC3339),
		AvgNS: int64(avgNS), StddevNS: int64(sdNS), AvgTS: avgTS, StddevTS: sdTS, SampleNS: r.Samples, SampleTS: each,
	}
}

// Writer prints rows as they are measured.
type Writer struct {
	out    *bufio.Writer
	format string
	rows   int
}

// NewWriter checks format: md, csv, json or jsonl.
func NewWriter(w io.Writer, format string) (*Writer, error) {
	switch format {
	case "md", "csv", "json", "jsonl":
		return &Writer{out: bufio.NewWriter(w), format: format}, nil
	}
	return nil, fmt.Errorf("output format %q is not one of md, csv, json, jsonl", format)
}

// Write prints one row.
func (w *Writer) Write(r Row) error {
	rec := r.record()
	first := w.rows == 0
	w.rows++
	switch w.format {
	case "md":
		if first {
			fmt.Fprintln(w.out, "| model                          |       size |     params | backend    | threads |            test |                  t/s |")
			fmt.Fprintln(w.out, "| ------------------------------ | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: |")
		}
		fmt.Fprintf(w.out, "| %-30s | %6.2f GiB | %10s | %-10s | %7d | %15s | %20s |\n", rec.Type, float64(rec.Bytes)/(1<<30),
			strings.Replace(strings.Replace(size(rec.Params), "B", " B", 1), "M", " M", 1), rec.Backends, rec.Threads, r.Name(),
			fmt.Sprintf("%.2f ± %.2f", rec.AvgTS, rec.StddevTS))
	case "csv":
		w.csv(rec, first)
	case "json":
		if first {
			fmt.Fprintln(w.out, "[")
		} else {
			fmt.Fprintln(w.out, ",")
		}
		data, err := json.MarshalIndent(rec, "  ", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w.out, "  %s", data)
	case "jsonl":
		if err := json.NewEncoder(w.out).Encode(rec); err != nil {
			return err
		}
	}
	return w.out.Flush()
}

func (w *Writer) csv(rec record, header bool) {
	v := reflect.ValueOf(rec)
	var names, values []string
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			continue // as llama-bench: samples are in JSON only
		}
		names = append(names, v.Type().Field(i).Tag.Get("json"))
		values = append(values, fmt.Sprint(v.Field(i).Interface()))
	}
	c := csv.NewWriter(w.out)
	if header {
		_ = c.Write(names)
	}
	_ = c.Write(values)
	c.Flush()
}

// Close ends the document.
func (w *Writer) Close() error {
	if w.format == "json" {
		if w.rows == 0 {
			fmt.Fprint(w.out, "[")
		}
		fmt.Fprintln(w.out, "\n]")
	}
	return w.out.Flush()
}
