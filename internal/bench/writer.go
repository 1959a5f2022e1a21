package bench

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
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
	Result
	Threads  int
	Batch    int
	UBatch   int
	TypeK    string // of the KV cache's keys
	TypeV    string // of its values
	NoRepack bool
	Commit   string
	CPU      string
	File     string
	Model    Model
	GPUs     []GPU   // GPUs in use
	Layers   int     // the model's layers with a part on GPUs
	Planned  bool    // tables have a column of the expected rates
	Expected float64 // tokens per second that the plan expects of this test; 0: nothing is known
	Time     time.Time
}

// GPU is a GPU in a row.
type GPU struct{ Name, Device string }

// record is a Row in llama-bench's JSON and CSV fields. Fields without a choice here have the corresponding value of
// its documentation (tools/llama-bench/README.md).
type record struct {
	Commit   string  `json:"build_commit"`
	Number   int     `json:"build_number"` // none here; readers of llama-bench's files expect the field
	CPU      string  `json:"cpu_info"`
	GPU      string  `json:"gpu_info"`
	Backends string  `json:"backends"`
	File     string  `json:"model_filename"`
	Type     string  `json:"model_type"`
	Bytes    int64   `json:"model_size"`
	Params   int64   `json:"model_n_params"`
	Batch    int     `json:"n_batch"`
	UBatch   int     `json:"n_ubatch"`
	Threads  int     `json:"n_threads"`
	Mask     string  `json:"cpu_mask"`
	Strict   bool    `json:"cpu_strict"`
	Poll     int     `json:"poll"`
	TypeK    string  `json:"type_k"`
	TypeV    string  `json:"type_v"`
	Layers   int     `json:"n_gpu_layers"`
	MoE      int     `json:"n_cpu_moe"`
	Split    string  `json:"split_mode"`
	MainGPU  int     `json:"main_gpu"`
	KVOnHost bool    `json:"no_kv_offload"`
	Flash    int     `json:"flash_attn"`
	Devices  string  `json:"devices"`
	Shares   string  `json:"tensor_split"`
	Buffers  string  `json:"tensor_buft_overrides"`
	MMap     bool    `json:"use_mmap"`
	Direct   bool    `json:"use_direct_io"`
	Embed    bool    `json:"embeddings"`
	OpOnHost int     `json:"no_op_offload"`
	NoHost   bool    `json:"no_host"`
	Fit      int     `json:"fit_target"`
	FitCtx   int     `json:"fit_min_ctx"`
	Prompt   int     `json:"n_prompt"`
	Gen      int     `json:"n_gen"`
	Depth    int     `json:"n_depth"`
	Time     string  `json:"test_time"`
	AvgNS    int64   `json:"avg_ns"`
	StddevNS int64   `json:"stddev_ns"`
	AvgTS    float64 `json:"avg_ts"`
	StddevTS float64 `json:"stddev_ts"`
	// Ours: whether weights were packed at load; shares of (token, neuron) pairs, 0…1, and bytes of feed-forward
	// weights a step, zeros in mode off; what the plan expects.
	Repack    bool    `json:"repack"`
	Sparse    string  `json:"sparse"`
	Predicted float64 `json:"predicted_share"`
	Active    float64 `json:"active_share"`
	FFNBytes  float64 `json:"ffn_bytes"`
	FFNDense  float64 `json:"ffn_bytes_dense"`
	Expected  float64 `json:"plan_ts"`
	// Ours, too, of models larger than memory: bytes read from disk for a token, the share of uses of experts or neurons
	// that memory had, and the share of the time in which steps waited for the disk. Zeros where all is in memory.
	DiskBytes float64 `json:"disk_bytes_per_token"`
	DiskKept  float64 `json:"disk_kept_share"`
	DiskWait  float64 `json:"disk_wait_share"`
	LeftOut   float64 `json:"experts_left_out_share"` // uses of experts that were left out instead of read, of all

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
	n := &r.Neurons
	backends, devices, names := "CPU", "none", []string(nil)
	if len(r.GPUs) > 0 {
		var d []string
		for _, c := range r.GPUs {
			names, d = append(names, c.Name), append(d, c.Device)
		}
		backends, devices = "Vulkan", strings.Join(d, "/")
	}
	return record{
		Commit: r.Commit, CPU: r.CPU, GPU: strings.Join(names, ", "), Backends: backends, Layers: r.Layers, Devices: devices, File: r.File, Type: r.Model.Type, Bytes: r.Model.Bytes, Params: r.Model.Params,
		Batch: r.Batch, UBatch: r.UBatch, Threads: r.Threads, TypeK: r.TypeK, TypeV: r.TypeV,
		Mask: "0x0", Poll: 50, Split: "layer", Flash: 1, Shares: "0.00", Buffers: "none", MMap: r.NoRepack, Repack: !r.NoRepack,
		Prompt: r.Prompt, Gen: r.Gen, Depth: r.Depth, Time: r.Time.Format(time.RFC3339),
		AvgNS: int64(avgNS), StddevNS: int64(sdNS), AvgTS: avgTS, StddevTS: sdTS, SampleNS: r.Samples, SampleTS: each,
		Sparse: n.Mode, Predicted: ratio(n.Predicted, n.Pairs), Active: ratio(n.Active, n.Pairs),
		FFNBytes: ratio(n.Bytes, n.Steps), FFNDense: ratio(n.Dense, n.Steps), Expected: r.Expected,
		DiskBytes: ratio(r.Disk.Bytes, int64(len(r.Samples)*(r.Prompt+r.Gen))), DiskKept: ratio(r.Disk.Kept, r.Disk.Uses()),
		DiskWait: ratio(int64(r.Disk.Waited), sum(r.Samples)), LeftOut: ratio(r.Disk.Left, r.Disk.Left+r.Disk.Uses()),
	}
}

// Writer prints rows as they are measured.
type Writer struct {
	out    *bufio.Writer
	format string
	rows   int
	sparse bool // the table has columns for neurons
	plan   bool // the table has a column for what was expected
	disk   bool // the table has columns for what was read from disk
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
		w.markdown(r, rec, first)
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

// markdown prints llama-bench's columns, and where neurons are skipped the shares that were active and read, and
// where parts of the model are on disk what was read of them. The first row decides, as all rows are of one model.
func (w *Writer) markdown(r Row, rec record, first bool) {
	if first {
		w.sparse, w.plan, w.disk = r.Neurons.Mode != model.Off.String(), r.Planned, r.Disk.Uses() > 0
		more, rule := "", ""
		if w.sparse {
			more, rule = "  sparse |  active | FFN read |", " ------: | ------: | -------: |"
		}
		if w.disk {
			more, rule = more+"  in RAM | left out | disk MB/t | waiting |", rule+" ------: | -------: | --------: | ------: |"
		}
		fmt.Fprintln(w.out, "| model                          |       size |     params | backend    | threads |"+more+"            test |                  t/s |"+w.column("plan t/s"))
		fmt.Fprintln(w.out, "| ------------------------------ | ---------: | ---------: | ---------- | ------: |"+rule+" --------------: | -------------------: |"+w.column("-------:"))
	}
	more := ""
	if w.sparse {
		more = fmt.Sprintf(" %7s | %5.1f %% | %6.1f %% |", rec.Sparse, 100*rec.Active, 100*ratio(r.Neurons.Bytes, r.Neurons.Dense))
	}
	if w.disk {
		more += fmt.Sprintf(" %5.1f %% | %6.1f %% | %9.2f | %5.1f %% |", 100*rec.DiskKept, 100*rec.LeftOut, rec.DiskBytes/1e6, 100*rec.DiskWait)
	}
	expected := ""
	if r.Expected > 0 {
		expected = fmt.Sprintf("%.2f", r.Expected)
	}
	fmt.Fprintf(w.out, "| %-30s | %6.2f GiB | %10s | %-10s | %7d |%s %15s | %20s |%s\n", rec.Type, float64(rec.Bytes)/(1<<30),
		strings.Replace(strings.Replace(size(rec.Params), "B", " B", 1), "M", " M", 1), rec.Backends, rec.Threads, more, r.Name(),
		fmt.Sprintf("%.2f ± %.2f", rec.AvgTS, rec.StddevTS), w.column(expected))
}

// column returns a cell of the last column, which says what was expected, if there is one.
func (w *Writer) column(text string) string {
	if !w.plan {
		return ""
	}
	return fmt.Sprintf(" %8s |", text)
}

func (w *Writer) csv(rec record, header bool) {
	v := reflect.ValueOf(rec)
	var names, values []string
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			continue // as llama-bench: samples are in JSON only
		}
		value := fmt.Sprint(v.Field(i).Interface())
		if v.Field(i).CanFloat() { // millions of bytes without an exponent
			value = strconv.FormatFloat(v.Field(i).Float(), 'f', -1, 64)
		}
		names = append(names, v.Type().Field(i).Tag.Get("json"))
		values = append(values, value)
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
