//go:build amd64 || arm64

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/testenv/faults"
)

func init() { scriptPrograms["faulty"] = faulty }

// faulty is powerinfer under a tracer that can make its changes of files fail.
func faulty() {
	path, err := exec.LookPath("powerinfer")
	if err == nil {
		err = faults.Become(path, append([]string{"powerinfer"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(statusError)
}

var everyFault = flag.Bool("every-fault", false, "TestFaults lets every call fail in every way, which takes minutes")

// writer is a command that writes files, and how to test it.
type writer struct {
	name    string
	before  string   // arguments of the command that writes the older files; empty: there are none
	args    string   // arguments
	stdin   string   // its standard input
	files   []string // files that it writes
	grows   bool     // it appends lines to its file, which a later run continues
	resumes string   // added to the arguments to continue
	partial string   // prefix of the files that it may leave for continuing
	varies  bool     // the output differs between runs: it is JSON
	extra   string   // a file that the command can do without, and says so
	slow    bool     // fewer faults are tried
	env     []string
	inputs  func(t *testing.T, in string) error // writes further inputs
}

// writers are all commands that write files, those of the README first. The model is ../in/m.gguf.
func writers(hub string) []writer {
	return []writer{
		{name: "quantize", before: "quantize ../in/m.gguf q.gguf q8_0", args: "quantize ../in/m.gguf q.gguf q4_0", files: []string{"q.gguf"}},
		{name: "quantize parts", before: "quantize --keep-split ../in/s-00001-of-00003.gguf q.gguf q8_0", args: "quantize --keep-split ../in/s-00001-of-00003.gguf q.gguf q4_0", files: gguf.PartNames("q", 3)},
		{name: "quantize new parts", args: "quantize --keep-split ../in/s-00001-of-00003.gguf q.gguf q4_0", files: gguf.PartNames("q", 3)},
		{name: "convert", args: "convert ../in/hf --outfile c.gguf", files: []string{"c.gguf"}, inputs: func(t *testing.T, in string) error {
			return os.CopyFS(filepath.Join(in, "hf"), os.DirFS(demotest.HuggingFace(t)))
		}},
		{name: "imatrix", before: "imatrix ../in/m.gguf -f ../in/t.txt -c 16 --chunks 1 -o i.gguf", args: "imatrix ../in/m.gguf -f ../in/t.txt -c 16 --chunks 3 --output-frequency 1 -o i.gguf", files: []string{"i.gguf"}, partial: "i.gguf.partial"},
		{name: "imatrix dat", args: "imatrix ../in/m.gguf -f ../in/t.txt -c 16 --chunks 2 -o i.dat", files: []string{"i.dat"}, partial: "i.dat.partial"},
		{name: "profile", before: "profile ../in/d.gguf -f ../in/other.txt -o s.gguf", args: "profile ../in/d.gguf -f ../in/t.txt -o s.gguf", files: []string{"s.gguf"}, resumes: " --resume", partial: "s.gguf.work"},
		{name: "prepare", args: "prepare ../in/d.gguf -f ../in/long.txt -o r.gguf -t 1", files: []string{"r.gguf"}, slow: true, resumes: " --resume", partial: "r.gguf.work"},
		{name: "perplexity", before: "perplexity -f ../in/other.txt -c 16 --kl-divergence-base b.kld", args: "perplexity -f ../in/t.txt -c 16 --kl-divergence-base b.kld", files: []string{"b.kld"}},
		{name: "prompt cache", before: "run -p Hansel -n 1 --prompt-cache k.kv", args: "run -p Hansel-and-Gretel -n 1 --temp 0 --prompt-cache k.kv", files: []string{"k.kv"}},
		{name: "trace", before: "run -p Hansel -n 1 --trace t.json", args: "run -p Once -n 2 --trace t.json", files: []string{"t.json"}, varies: true},
		{name: "plan", before: "plan --html p.html --machine 32:30 -m ../in/d.gguf", args: "plan --html p.html --machine 64:60 -m ../in/m.gguf", files: []string{"p.html"}},
		{name: "report", before: "inspect --neurons ../in/s1.gguf --report .", args: "inspect --neurons ../in/s2.gguf --report .", files: []string{"report.html", "curves.png", "ranks.png", "map.png"}},
		{name: "batch", args: "batch -f ../in/p.jsonl -o a.jsonl -n 3 -np 1 --temp 0", files: []string{"a.jsonl"}, grows: true},
		{name: "eval", args: "eval arc -f ../in/arc.csv -o e.jsonl -np 1", files: []string{"e.jsonl"}, grows: true},
		{name: "save", before: "chat -n 1 --temp 0 <Hansel\n/save c.json\n", args: "chat -n 2 --temp 0", stdin: "Once\n/save c.json\n", files: []string{"c.json", "c.json.kv"}, extra: "c.json.kv"},
		{name: "pull", args: "pull tales/small:Q8_0", files: []string{"hub/models--tales--small/snapshots/*/small-Q8_0.gguf"}, resumes: " ", partial: "hub", env: []string{"HF_ENDPOINT=" + hub, "HF_HUB_CACHE=hub"}},
	}
}

// TestFaults: whichever system call fails while a command changes files, the old file or the new one is complete. A
// command that did not write the new file prints a line and has an error status. Interrupted and short calls are
// repeated. The files of a killed process are complete, too.
func TestFaults(t *testing.T) {
	testenv.Thorough(t)
	hub := hubtest.New()
	t.Cleanup(hub.Close) // after the parallel tests
	hub.Repos["tales/small"] = &hubtest.Repo{Files: map[string][]byte{"small-Q8_0.gguf": demo.Model()}}
	root := t.TempDir()
	in := filepath.Join(root, "in")
	writeFaultInputs(t, root, in)
	for i, w := range writers(hub.URL) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f := faultRun{w: w, root: root, in: in, random: rand.New(rand.NewPCG(1, uint64(i)))}
			f.test(t)
		})
	}
}

// writeFaultInputs writes what the commands read.
func writeFaultInputs(t *testing.T, root, in string) {
	t.Helper()
	text := strings.Repeat("Once upon a time there was a king who had a daughter. She was as beautiful as the sun. ", 80)
	for name, data := range map[string]string{
		"m.gguf": string(demo.Model()), "t.txt": text, "long.txt": strings.Repeat(text, 3), "other.txt": strings.Repeat("The old witch went into the house and shut the door. ", 110),
		"p.jsonl": "{\"prompt\":\"Once\"}\n{\"prompt\":\"The old\"}\n{\"prompt\":\"Hansel\"}\n",
		"arc.csv": "questionID,AnswerKey,question\n1,A,Once upon a time there was a king who had (A) three sons (B) seven eight (C) cold soup\n2,B,The old woman went into the (A) of of (B) house and shut the door (C) seven\n",
	} {
		if err := errors.Join(os.MkdirAll(in, 0o700), os.WriteFile(filepath.Join(in, name), []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	err := synth.Write(context.Background(), filepath.Join(in, "d.gguf"), synth.Spec{
		Arch: "llama", Type: quant.F16, Layers: 2, Embd: 128, FF: 256, Heads: 4, Sparsity: 0.9, PowerLaw: 1, Seed: 1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := splitDemo(filepath.Join(in, "s")); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"profile d.gguf -f t.txt -o s1.gguf", "profile d.gguf -f other.txt -o s2.gguf",
	} {
		cmd := exec.Command("powerinfer", strings.Fields(args)...)
		cmd.Dir, cmd.Env = in, faultEnv(root, nil)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
}

// splitDemo writes the embedded model as three parts.
func splitDemo(prefix string) error {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		return err
	}
	const parts = 3
	var all []gguf.Part
	for no, name := range gguf.PartNames(prefix, parts) {
		p := gguf.Part{Path: name}
		if no == 0 {
			p.Keys = slices.Clone(f.Keys)
		}
		p.Keys = append(p.Keys, gguf.KV{Key: "split.no", Value: uint16(no)}, gguf.KV{Key: "split.count", Value: uint16(parts)}, gguf.KV{Key: "split.tensors.count", Value: int32(len(f.Tensors))})
		for i, y := range f.Tensors {
			if i*parts/len(f.Tensors) == no {
				p.Tensors = append(p.Tensors, gguf.Source{Name: y.Name, Type: y.Type, Shape: y.Shape, Write: func(w io.Writer) error { _, err := w.Write(y.Data); return err }})
			}
		}
		all = append(all, p)
	}
	return gguf.CreateParts(context.Background(), f.Magic, all, nil)
}

// faultEnv is a command's environment.
func faultEnv(root string, more []string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + root, "XDG_CACHE_HOME=" + filepath.Join(root, "cache"), "LLAMA_ARG_DEVICE=none", "LLAMA_ARG_THREADS=1", "POWERINFER_PATIENCE=" + hung,
	}, more...)
}

// faultRun tests a command.
type faultRun struct {
	w        writer
	root, in string
	random   *rand.Rand
	template string              // a folder as the command finds it
	old, new map[string]string   // content of its files before and after
	names    map[string]struct{} // of all files in the folder before and after
}

// outcome is the result of a command that was run with a fault.
type outcome struct {
	calls  []faults.Call
	at     int // index of the call that failed; -1: none did
	status int // -1: it was killed
	stderr string
}

func (f *faultRun) test(t *testing.T) {
	w := &f.w
	if w.inputs != nil {
		if err := w.inputs(t, f.in); err != nil {
			t.Fatal(err)
		}
	}
	f.template = f.folder(t)
	if args, stdin, _ := strings.Cut(w.before, "<"); args != "" {
		cmd := f.command("powerinfer", args, stdin, f.template)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	f.old = f.read(f.template)
	dir := f.copied(t)
	whole := f.run(t, dir, w.args, faults.Fault{})
	f.new = f.read(dir)
	if whole.status != 0 || len(f.new) != len(w.files) || len(whole.calls) == 0 {
		t.Fatalf("without faults: exit status %d, %d files, %d calls: %s", whole.status, len(f.new), len(whole.calls), whole.stderr)
	}
	f.names = map[string]struct{}{}
	for _, from := range []string{f.template, dir} {
		for _, name := range f.list(t, from) {
			f.names[name] = struct{}{}
		}
	}
	for _, fault := range f.faults(t, whole.calls) {
		dir := f.copied(t)
		o := f.run(t, dir, w.args, fault)
		said := fmt.Sprintf("%s, number %d, %s", fault.Kind, fault.Nth, faultName(fault))
		t.Logf("%d of %d calls: %s: exit status %d: %s", o.at, len(whole.calls), said, o.status, o.stderr)
		if o.at < 0 {
			t.Fatalf("%s: it did not happen: this run made other calls than the one without faults: %q, %q", said, o.calls, whole.calls)
		}
		f.check(t, dir, said, fault, o)
		if t.Failed() {
			return
		}
		os.RemoveAll(dir)
	}
}

func faultName(f faults.Fault) string {
	switch {
	case f.Kill:
		return "killed"
	case f.Short:
		return "short"
	}
	return unix.ErrnoName(f.Errno)
}

// faults chooses calls for each kind of fault, or takes all. Each kind of call is as likely as any other, however many
// calls it has.
func (f *faultRun) faults(t *testing.T, calls []faults.Call) (all []faults.Fault) {
	add := func(most int, fault faults.Fault, possible func(c faults.Call) bool) {
		counts, kinds := map[string]int{}, []string(nil)
		for _, c := range calls {
			if !possible(c) {
				continue
			}
			kind := c.Kind()
			if counts[kind] == 0 {
				kinds = append(kinds, kind)
			}
			if *everyFault {
				fault.Kind, fault.Nth = kind, counts[kind]
				all = append(all, fault)
			}
			counts[kind]++
		}
		if len(kinds) == 0 {
			t.Fatalf("%s can happen to none of the calls %q", faultName(fault), calls)
		}
		if *everyFault {
			return
		}
		for _, k := range f.random.Perm(len(kinds))[:min(most, len(kinds))] {
			fault.Kind, fault.Nth = kinds[k], f.random.IntN(counts[kinds[k]])
			all = append(all, fault)
		}
	}
	each := func(faults.Call) bool { return true }
	if f.w.slow && !*everyFault {
		add(2, faults.Fault{Errno: unix.EIO}, each)
		add(1, faults.Fault{Kill: true}, each)
		return all
	}
	add(3, faults.Fault{Errno: unix.EIO}, each)
	add(1, faults.Fault{Errno: unix.ENOSPC, Sticky: true}, faults.Call.Needs)
	add(1, faults.Fault{Errno: unix.EINTR}, each)
	add(1, faults.Fault{Short: true}, faults.Call.Shortens)
	add(2, faults.Fault{Kill: true}, each)
	return all
}

// check checks a command's files and messages after a fault.
func (f *faultRun) check(t *testing.T, dir, said string, fault faults.Fault, o outcome) {
	t.Helper()
	w := &f.w
	again := fault.Errno == unix.EINTR || fault.Short
	if again && o.status != 0 {
		t.Errorf("%s: exit status %d: %s", said, o.status, o.stderr)
	}
	if fault.Kill != (o.status < 0) {
		t.Errorf("%s: exit status %d", said, o.status)
	}
	if o.status > 0 {
		lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
		if n := strings.Count(o.stderr, "powerinfer: "); n != 1 || !strings.HasPrefix(lines[len(lines)-1], "powerinfer: ") || strings.Contains(o.stderr, "goroutine ") {
			t.Errorf("%s: it ends without a line of its own: %s", said, o.stderr)
		}
	}
	now := f.read(dir)
	for _, name := range w.files {
		is, older, newer := now[name], f.old[name], f.new[name]
		switch {
		case w.grows:
			if rest, ok := strings.CutPrefix(newer, wholeLines(is)); !ok {
				t.Errorf("%s: %s has other lines: %q", said, name, is)
			} else if o.status == 0 && rest != "" || o.status > 0 && wholeLines(is) != is {
				t.Errorf("%s: %s lacks %q, exit status %d", said, name, rest, o.status)
			}
		case is != older && is != newer && !(w.varies && json.Valid([]byte(is))):
			t.Errorf("%s: %s is neither the older file nor the new one, but has %d bytes", said, name, len(is))
		case o.status == 0 && name == w.extra && strings.Contains(o.stderr, "without the KV cache: "):
		case o.status == 0 && is != newer && !w.varies:
			t.Errorf("%s: %s is not the new file, and the exit status is 0: %s", said, name, o.stderr)
		}
	}
	if !fault.Kill {
		for _, name := range f.list(t, dir) {
			if _, known := f.names[name]; !known && (w.partial == "" || !strings.HasPrefix(name, w.partial)) {
				t.Errorf("%s: it left %s", said, name)
			}
		}
	}
	if o.status == 0 || !w.grows && w.resumes == "" {
		return
	}
	args := w.args
	if _, err := os.Stat(filepath.Join(dir, w.partial)); err == nil {
		args += w.resumes
	}
	if o := f.run(t, dir, args, faults.Fault{}); o.status != 0 {
		t.Errorf("%s: the next run does not go on: %s", said, o.stderr)
	}
	now = f.read(dir)
	for _, name := range w.files {
		if now[name] != f.new[name] {
			t.Errorf("%s: %s is not the new file after going on", said, name)
		}
	}
}

// cachedTokens is a field of batch's answers that depends on what was answered before.
var cachedTokens = regexp.MustCompile(`"cached_tokens":[0-9]+,`)

func wholeLines(s string) string { return s[:strings.LastIndexByte(s, '\n')+1] }

// folder makes a folder next to the inputs' folder.
func (f *faultRun) folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(f.root, strings.ReplaceAll(f.w.name, " ", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (f *faultRun) copied(t *testing.T) string {
	t.Helper()
	dir := f.folder(t)
	if err := os.CopyFS(dir, os.DirFS(f.template)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (f *faultRun) command(program, args, stdin, dir string) *exec.Cmd {
	cmd := exec.Command(program, strings.Fields(args)...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, faultEnv(f.root, f.w.env), strings.NewReader(stdin)
	return cmd
}

// run runs the command with a fault.
func (f *faultRun) run(t *testing.T, dir, args string, fault faults.Fault) (o outcome) {
	t.Helper()
	cmd := f.command("faulty", args, f.w.stdin, dir)
	var text bytes.Buffer
	cmd.Stderr = &text
	calls, at, err := faults.Run(cmd, dir, fault)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		testenv.Missing(t, "seccomp", err.Error())
	}
	return outcome{calls, at, cmd.ProcessState.ExitCode(), text.String()}
}

// read returns the content of the command's files in a folder.
func (f *faultRun) read(dir string) map[string]string {
	all := map[string]string{}
	for _, name := range f.w.files {
		found, _ := filepath.Glob(filepath.Join(dir, name))
		for _, path := range found {
			if b, err := os.ReadFile(path); err == nil {
				all[name] = cachedTokens.ReplaceAllString(string(b), "")
			}
		}
	}
	return all
}

// list returns the names in a folder.
func (f *faultRun) list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
