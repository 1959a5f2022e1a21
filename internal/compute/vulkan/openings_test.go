package vulkan

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestMain closes the shared device and says in the end what the tests opened, for gpu-check's report.
func TestMain(m *testing.M) {
	code := m.Run()
	if d := shared.Device; d != nil {
		if err := d.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	fmt.Println("counted:", driver.Counted())
	os.Exit(code)
}

// TestOpenings opens and closes a device hundreds of times, as a server does that changes models: the process has one
// instance, and keeps no file, thread or memory of closed devices.
func TestOpenings(t *testing.T) {
	testenv.Thorough(t)
	d, _ := software(t, Options{}) // or skips
	d.Close()
	name, openings := Software, 500
	if gpu := os.Getenv(deviceVariable); gpu != "" {
		name, openings = gpu, 60 // each takes a tenth of a second and more
	}
	open := func(n int) {
		t.Helper()
		d, err := Open(Options{Device: name})
		if err != nil {
			t.Fatalf("opening %d: %v", n, err)
		}
		x := tensorOf(t, d, 1, 8)
		if n%10 == 0 {
			if err := d.Run(compute.Segment{Name: "add", Rows: 1}, &compute.Params{}, func(v compute.Verbs) { v.Add(x, x) }); err != nil {
				t.Fatalf("opening %d: %v", n, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatalf("opening %d: %v", n, err)
		}
	}
	held(t) // Go opens files of its own for it
	const settled = 20
	for n := range settled {
		open(n)
	}
	count, before := driver.Counted(), held(t)
	start := time.Now()
	for n := range openings {
		open(n)
	}
	took := time.Since(start)
	after := held(t)
	t.Logf("%d openings of %.1f ms each; before %+v, after %+v", openings, 1e3*took.Seconds()/float64(openings), before, after)
	want := count
	want.Devices += openings
	if got := driver.Counted(); got != want {
		t.Errorf("the process counts %+v, want %+v", got, want)
	}
	if before.files != after.files || after.threads >= before.threads+openings/2 { // Go's own threads come and go
		t.Errorf("closed devices leave files or threads: before %+v, after %+v", before, after)
	}
	if grown := after.memory - before.memory; grown > reserved {
		t.Errorf("closed devices leave %d bytes", grown)
	}
}

// reserved bounds the bytes that heaps of Go and C keep for later, however many devices were opened: less for each of
// 500 devices than the smallest of their slabs.
const reserved = 48 << 20

// holdings is what the process has of the system.
type holdings struct {
	files, threads int
	memory         int64 // bytes, but for what is mapped from files
}

// held returns zeros where the system does not tell.
func held(t *testing.T) (h holdings) {
	t.Helper()
	runtime.GC()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return h
	}
	h.files = len(files)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "Threads:":
			h.threads = int(n)
		case "RssAnon:":
			h.memory = n << 10
		}
	}
	return h
}
