package metrics

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// contentType is that of Prometheus' text form, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// The kinds of metrics.
const (
	isCounter   = "counter"
	isGauge     = "gauge"
	isHistogram = "histogram"
)

// An exposition collects samples of metrics and writes them in Prometheus' text form.
type exposition map[string]*family // by the metric's name

// family is one metric with its samples.
type family struct {
	help, kind string
	samples    []string // lines
}

// label is a label with its value.
type label struct{ name, value string }

// add adds a sample. suffix follows the metric's name where a histogram has several.
func (e exposition) add(name, help, kind, suffix string, v float64, labels ...label) {
	f := e[name]
	if f == nil {
		f = &family{help: help, kind: kind}
		e[name] = f
	}
	var line strings.Builder
	line.WriteString(name + suffix)
	for i, l := range labels {
		line.WriteString([]string{"{", ","}[min(i, 1)] + l.name + `="` + labelEscapes.Replace(strings.ToValidUTF8(l.value, "\ufffd")) + `"`)
	}
	if len(labels) > 0 {
		line.WriteByte('}')
	}
	f.samples = append(f.samples, line.String()+" "+strconv.FormatFloat(v, 'g', -1, 64)+"\n")
}

// histogram adds all samples of h.
func (e exposition) histogram(name, help string, h *histogram, labels []label) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n uint64
	for i, bound := range append(slices.Clone(h.bounds), 0) {
		n += h.counts[i]
		le := "+Inf"
		if i < len(h.bounds) {
			le = strconv.FormatFloat(bound, 'g', -1, 64)
		}
		e.add(name, help, isHistogram, "_bucket", float64(n), append(slices.Clone(labels), label{"le", le})...)
	}
	e.add(name, help, isHistogram, "_sum", h.sum, labels...)
	e.add(name, help, isHistogram, "_count", float64(n), labels...)
}

// What the text form writes otherwise in values of labels and in help.
var (
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// write writes the metrics in the order of their names.
func (e exposition) write(to io.Writer) error {
	w := bufio.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(e)) {
		f := e[name]
		w.WriteString("# HELP " + name + " " + helpEscapes.Replace(f.help) + "\n# TYPE " + name + " " + f.kind + "\n")
		for _, line := range f.samples {
			w.WriteString(line)
		}
	}
	return w.Flush() // which returns what any of the writes failed with
}
