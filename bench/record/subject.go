package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// subject is the binary that gives the recorded answers, and a temporary folder for its caches and models.
type subject struct {
	binary, dir string
	env         []string
	version     string // first line of powerinfer version
	sum         string // hash of the binary
	driver      string // lavapipe's name and driver; empty: there is none
}

func newSubject(ctx context.Context, binary string) (*subject, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "powerinfer-record-")
	if err != nil {
		return nil, err
	}
	s := &subject{binary: path, dir: dir, sum: hash(data)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LLAMA_") {
			s.env = append(s.env, v)
		}
	}
	for _, name := range []string{"XDG_CACHE_HOME", "LocalAppData", "HOME"} { // os.UserCacheDir is in one of these
		s.env = append(s.env, name+"="+dir)
	}
	if err := s.prepareMachine(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *subject) close() { os.RemoveAll(s.dir) }

// prepareMachine writes the tale that all cases use, asks what the binary is and what it runs on, and fixes the speeds
// it measured.
func (s *subject) prepareMachine(ctx context.Context) error {
	if err := s.writeTexts(); err != nil {
		return err
	}
	version, err := s.run(ctx, "version")
	if err != nil {
		return err
	}
	s.version, _, _ = strings.Cut(version, "\n")
	devices, err := s.run(ctx, "run", "--list-devices")
	if err != nil {
		return err
	}
	s.driver = lavapipe(devices)
	if _, err := s.run(ctx, "plan", "--json"); err != nil { // measures the machine
		return err
	}
	return s.fixSpeeds()
}

// lavapipe names the software GPU and its driver, with their versions, as --list-devices does; "" if there is none.
func lavapipe(devices string) string {
	return strings.Join(regexp.MustCompile(`llvmpipe[^()]*\([^()]*\)`).FindAllString(devices, 2), ", ")
}

// Speeds that stand for those measured, in bytes per second: what the machine was busy with must not move neurons.
const (
	fixedStream = 20e9
	fixedRows   = 15e9
)

// fixSpeeds replaces the bandwidths that the binary measured and keeps in its cache.
func (s *subject) fixSpeeds() error {
	found, _ := filepath.Glob(filepath.Join(s.dir, "powerinfer", "machine.json"))
	if found == nil {
		found, _ = filepath.Glob(filepath.Join(s.dir, "Library", "Caches", "powerinfer", "machine.json")) // macOS
	}
	if found == nil {
		return errors.New("the binary kept no machine.json in its cache: its speeds cannot be fixed")
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	var machine map[string]any
	if err := json.Unmarshal(data, &machine); err != nil {
		return err
	}
	fix(machine["ram"])
	machine["products"], machine["packs"] = 100e9, 1e9
	if data, err = json.Marshal(machine); err != nil {
		return err
	}
	return os.WriteFile(found[0], data, 0o644)
}

// fix replaces speeds anywhere within v.
func fix(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			fix(e)
		}
	case map[string]any:
		for key, e := range v {
			switch {
			case key == "stream":
				v[key] = fixedStream
			case key == "read":
				v[key] = fixedRows
			default:
				fix(e)
			}
		}
	}
}

// run returns what the binary writes to standard output.
func (s *subject) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		says := bytes.TrimSpace(exit.Stderr)
		err = fmt.Errorf("powerinfer %s: %w: %s", strings.Join(args, " "), err, says[bytes.LastIndexByte(says, '\n')+1:])
	}
	return string(out), err
}

func (s *subject) header(note string) []field {
	cpu := hw.Detect()
	if note == "" {
		note = "none"
	}
	return []field{
		{"recorded by", "bench/record"},
		{"binary", s.version + ", sha256 " + s.sum},
		{"note", note},
		{"processor", cpu.Name},
		{processorKey, instructionSets(cpu.Features)},
		{driverKey, s.driver},
	}
}

// instructionSets names the instruction sets that choose kernels.
func instructionSets(f hw.Features) string {
	var have []string
	for _, v := range []struct {
		name string
		is   bool
	}{{"AVX2", f.AVX2}, {"AVX512", f.AVX512}, {"AVX512_VNNI", f.VNNI}, {"AVX_VNNI", f.AVXVNNI}, {"AVX512_BF16", f.AVX512BF16}, {"NEON", f.NEON}, {"DotProd", f.DotProd}, {"I8MM", f.I8MM}} {
		if v.is {
			have = append(have, v.name)
		}
	}
	return strings.Join(have, " ")
}

// hash returns the first 12 digits of the SHA-256 sum.
func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:12] }
