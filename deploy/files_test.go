package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// mostExposure is the highest exposure that systemd-analyze may give the unit, in tenths of its ten points: "OK" begins
// below 5, the unit has 1.8.
const mostExposure = "20"

// TestUnit: systemd accepts the unit without a message, alone and with cpu-only.conf, and finds it well confined.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		missing(t, "systemd", "systemd-analyze is not installed")
	}
	for _, dropIn := range []bool{false, true} {
		dir := t.TempDir()
		unit := filepath.Join(dir, "powerinfer.service")
		text := read(t, "systemd/powerinfer.service")
		// The program is not installed here, and that a unit's program is missing is all that would be said.
		write(t, unit, strings.Replace(text, "ExecStart=/usr/bin/powerinfer serve", "ExecStart=/bin/true", 1))
		if dropIn {
			write(t, unit+".d/cpu-only.conf", read(t, "systemd/cpu-only.conf"))
		}
		if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("verify: %v: %s", err, out)
		}
		if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold="+mostExposure, unit).CombinedOutput(); err != nil {
			t.Errorf("security: %v: %s", err, out)
		}
	}
}

// What the release's description packs is there.
func TestReleaseFiles(t *testing.T) {
	var release struct {
		Archives []struct {
			Files []any `json:"files"`
		} `json:"archives"`
		NFPMs []struct {
			Contents []struct {
				Src string `json:"src"`
			} `json:"contents"`
		} `json:"nfpms"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../.goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range release.Archives {
		for _, f := range a.Files {
			switch f := f.(type) {
			case string:
				names = append(names, f)
			case map[string]any:
				names = append(names, f["src"].(string))
			}
		}
	}
	for _, p := range release.NFPMs {
		for _, c := range p.Contents {
			names = append(names, c.Src)
		}
	}
	if len(names) < 10 {
		t.Errorf("only %d files are packed", len(names))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if found, err := filepath.Glob(filepath.Join("..", name)); err != nil || len(found) == 0 {
			t.Errorf("%s is packed, and not there: %v", name, err)
		}
	}
}

// missing skips the test, or fails it where POWERINFER_REQUIRE names what, as internal/testenv does.
func missing(t *testing.T, what, reason string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("POWERINFER_REQUIRE")), what) {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
