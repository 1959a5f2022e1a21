package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func init() {
	systemCommands["windows"] = windows
	systemCommands["both"] = both
	systemCommands["killed"] = killed
}

// TestWindows: the Windows binary under wine prints the same bytes as this one, without a GPU and with the software
// device. wine's vulkan-1.dll forwards to that one if there is a display, even a virtual one.
func TestWindows(t *testing.T) {
	testenv.Thorough(t)
	if runtime.GOARCH != "amd64" {
		testenv.Missing(t, "wine", "wine runs programs for its own processor, which is not amd64")
	}
	for _, name := range []string{"wine64", "/usr/lib/wine/wine64", "wine", ""} {
		if name == "" {
			testenv.Missing(t, "wine", "no wine; on Debian: apt-get install wine64")
		}
		if _, err := exec.LookPath(name); err == nil {
			break
		}
	}
	dir := t.TempDir()
	exe, wine := filepath.Join(dir, "powerinfer.exe"), filepath.Join(testenv.Root(t), "scripts", "wine.sh")
	build := exec.Command("go", "build", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("WINEPREFIX", filepath.Join(dir, "prefix"))
	t.Cleanup(func() {
		if out, err := exec.Command(wine, "--end").CombinedOutput(); err != nil {
			t.Errorf("ending wine: %v: %s", err, out)
		}
	})
	hf, tales := demotest.HuggingFace(t), testenv.Shared(t, "tales")
	display := virtualDisplay(t)
	runScripts(t, "testdata/script/windows", func(e *testscript.Env) {
		e.Setenv("WINEPREFIX", os.Getenv("WINEPREFIX"))
		e.Setenv("HOME", os.Getenv("HOME")) // Go's cache, which wine.sh builds with
		e.Setenv("WINE", wine)
		e.Setenv("EXE", exe)
		e.Setenv("HF", hf)
		e.Setenv("TALES", tales)
		e.Setenv("VIRTUAL_DISPLAY", display)
	})
}

// virtualDisplay starts an X server without a screen and returns its name.
func virtualDisplay(t *testing.T) string {
	t.Helper()
	server := exec.Command("Xvfb", "-displayfd", "3", "-nolisten", "tcp", "-screen", "0", "640x480x24")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server.ExtraFiles = []*os.File{w}
	err = server.Start()
	w.Close()
	if err != nil {
		testenv.Missing(t, "wine", "no virtual display; on Debian: apt-get install xvfb")
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	number, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb ended: %v", err)
	}
	return ":" + strings.TrimSpace(number)
}

// windowsLimit is the time in seconds after which a Windows program counts as hung. It covers setting up wine and
// measuring the machine.
const windowsLimit = "1200"

// windows runs the Windows binary: windows ARGS...
func windows(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("timeout", append([]string{"-s", "KILL", windowsLimit, ts.Getenv("WINE"), ts.Getenv("EXE")}, args...)...)
	if (err != nil) != neg {
		ts.Fatalf("ended with %v", err)
	}
}

// both runs this binary and the Windows one, which must print the same: both ARGS...
func both(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Exec("powerinfer", args...); (err != nil) != neg {
		ts.Fatalf("here it ended with %v", err)
	}
	here := ts.ReadFile("stdout")
	windows(ts, neg, args)
	if there := ts.ReadFile("stdout"); there != here {
		ts.Fatalf("on Windows %q\nhere       %q", there, here)
	}
}

// killed runs the Windows binary and kills it as soon as FILE exists: killed FILE ARGS...
func killed(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(ts.Getenv("WINE"), append([]string{ts.Getenv("EXE")}, args[1:]...)...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "LLAMA_ARG_DEVICE=none")
	var text bytes.Buffer
	cmd.Stderr, cmd.Stdout = &text, io.Discard
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			ts.Fatalf("it ended by itself: %v: %s", err, &text)
		case <-time.After(time.Millisecond):
		}
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			break
		}
	}
	ts.Check(cmd.Process.Kill())
	<-ended
	fmt.Fprint(ts.Stdout(), text.String())
}
