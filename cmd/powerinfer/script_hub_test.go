package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
)

// standIn is the key of a script's own hub, a **hubtest.Hub.
type standIn struct{}

// startHub starts a hub for a script and sets HF_ENDPOINT to it. tales/small holds the embedded model as two types,
// tales/parts in two files, tales/drafted with a damaged draft model, and tales/gated for the token hf_reader. The
// repositories of two short names hold it, too. hub NAME=VALUE... changes the hub: cut=BYTES and cuts=TIMES lose
// connections, silent=true makes them silent instead, and new=FILE adds a file to tales/small. hub stop ends it.
func startHub(ts *testscript.TestScript, _ bool, args []string) {
	held := ts.Value(standIn{}).(**hubtest.Hub)
	h := *held
	if len(args) == 0 {
		h = hubtest.New()
		*held = h
		ts.Defer(h.Close)
		m := demo.Model()
		h.Repos["tales/small"] = &hubtest.Repo{Files: map[string][]byte{
			"README.md": []byte("# tales\n"), "small-Q8_0.gguf": m, "small-Q4_K_M.gguf": append(bytes.Clone(m), make([]byte, 32)...), "mmproj-F16.gguf": []byte("x"),
		}}
		first, second := halves(ts)
		h.Repos["tales/parts"] = &hubtest.Repo{Files: map[string][]byte{
			"Q8_0/parts-Q8_0-00001-of-00002.gguf": first, "Q8_0/parts-Q8_0-00002-of-00002.gguf": second,
		}}
		h.Repos["tales/drafted"] = &hubtest.Repo{Files: map[string][]byte{"drafted-Q8_0.gguf": m, "eagle3-drafted-Q8_0.gguf": []byte("x")}}
		h.Repos["tales/gated"] = &hubtest.Repo{Gated: true, Files: map[string][]byte{"gated-Q8_0.gguf": m}}
		h.Repos["ggml-org/Qwen3-0.6B-GGUF"] = &hubtest.Repo{Files: map[string][]byte{"Qwen3-0.6B-Q8_0.gguf": m}}
		h.Repos["ggml-org/SmolLM3-3B-GGUF"] = &hubtest.Repo{Files: map[string][]byte{"SmolLM3-Q8_0.gguf": m}}
		h.Token = "hf_reader"
		ts.Setenv("HF_ENDPOINT", h.URL)
		return
	}
	if args[0] == "stop" {
		h.Close()
		return
	}
	h.Lock()
	defer h.Unlock()
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		var err error
		switch name {
		case "silent":
			if h.Silence = nil; value == "true" {
				h.Silence = make(chan struct{})
			}
		case "cut":
			h.Cut, err = strconv.ParseInt(value, 10, 64)
		case "cuts":
			h.Cuts, err = strconv.Atoi(value)
		case "new":
			h.Repos["tales/small"].Files[value] = []byte("new")
		default:
			ts.Fatalf("hub %s", a)
		}
		ts.Check(err)
	}
}

// halves returns the embedded model split into two files.
func halves(ts *testscript.TestScript) (first, second []byte) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	ts.Check(err)
	source := func(t *gguf.Tensor) gguf.Source {
		return gguf.Source{Name: t.Name, Type: t.Type, Shape: t.Shape, Write: func(w io.Writer) error { _, err := w.Write(t.Data); return err }}
	}
	half := len(f.Tensors) / 2
	var files [][]byte
	for no, tensors := range [][]*gguf.Tensor{f.Tensors[:half], f.Tensors[half:]} {
		keys := []gguf.KV{{Key: "split.no", Value: uint16(no)}, {Key: "split.count", Value: uint16(2)}, {Key: "split.tensors.count", Value: int32(len(f.Tensors))}}
		if no == 0 {
			keys = append(keys, f.Keys...)
		}
		var list []gguf.Source
		for _, t := range tensors {
			list = append(list, source(t))
		}
		path := filepath.Join(ts.MkAbs("."), "half.gguf")
		ts.Check(gguf.Create(context.Background(), path, f.Magic, keys, list, nil))
		b, err := os.ReadFile(path)
		ts.Check(err)
		ts.Check(os.Remove(path))
		files = append(files, b)
	}
	return files[0], files[1]
}
