package library_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/library"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// machine is a machine with memory for models. Files' names are their sizes: "a-ram-gpu", or "a-ram-gpu-least" of RAM
// if experts may stay on the disk.
type machine struct {
	t        testing.TB
	mu       sync.Mutex
	ram, gpu int64 // that are left
	open     []string
	opened   int
	fail     error
	closing  time.Duration // that freeing a model takes
}

func sizes(path string) (ram, gpu, least int64) {
	var name string
	if n, _ := fmt.Sscanf(strings.ReplaceAll(path, "-", " "), "%s %d %d %d", &name, &ram, &gpu, &least); n < 4 {
		least = ram
	}
	return ram, gpu, least
}

func (m *machine) Need(_ context.Context, path string) (session.Need, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ram, gpu, least := sizes(path)
	has := min(gpu, m.gpu)
	return session.Need{RAM: ram + gpu - has, Least: least + gpu - has, GPU: has, Wanted: gpu}, nil
}

func (m *machine) Free() (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ram, nil
}

func (m *machine) Open(ctx context.Context, _, path string) (*server.Model, io.Closer, error) {
	need, _ := m.Need(ctx, path)
	time.Sleep(time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, nil, m.fail
	}
	if need.RAM > m.ram && need.Least <= m.ram { // experts stay on the disk
		need.RAM = m.ram
	}
	m.ram, m.gpu, m.opened = m.ram-need.RAM, m.gpu-need.GPU, m.opened+1
	if m.ram < 0 || m.gpu < 0 {
		m.t.Errorf("%s was loaded with %d and %d bytes too few", path, -m.ram, -m.gpu)
	}
	m.open = append(m.open, path)
	return &server.Model{}, closer(func() {
		time.Sleep(m.closing)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ram, m.gpu = m.ram+need.RAM, m.gpu+need.GPU
		m.open = slices.DeleteFunc(m.open, func(p string) bool { return p == path })
	}), nil
}

func (m *machine) loaded() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := slices.Sorted(slices.Values(m.open))
	return strings.Join(open, " ")
}

type closer func()

func (c closer) Close() error { c(); return nil }

func newLibrary(m *machine, o library.Options, models ...string) *library.Library {
	o.Opener, o.Log = m, slog.New(slog.DiscardHandler)
	o.Scan = func() ([]library.Source, error) {
		var all []library.Source
		for _, name := range models {
			all = append(all, library.Source{Name: name, Path: name})
		}
		return all, nil
	}
	return library.New(o)
}

func use(t *testing.T, l *library.Library, name string) (release func()) {
	t.Helper()
	_, release, err := l.Use(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return release
}

// TestEviction: memory decides, not the number of models. Idle models go first, the longest idle first; models in use
// stay.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100}
		l := newLibrary(m, library.Options{Keep: -1}, "a-40-0", "b-40-0", "c-15-0", "d-70-0", "e-200-0")
		defer l.Close()
		for _, name := range []string{"a-40-0", "b-40-0", "c-15-0", "a-40-0"} {
			use(t, l, name)()
			time.Sleep(time.Second)
		}
		if got := m.loaded(); got != "a-40-0 b-40-0 c-15-0" || m.opened != 3 {
			t.Errorf("loaded are %s, after %d loads: they fit together", got, m.opened)
		}
		held := use(t, l, "c-15-0")
		use(t, l, "d-70-0")()
		if got := m.loaded(); got != "c-15-0 d-70-0" {
			t.Errorf("loaded are %s", got)
		}

		begin := time.Now()
		time.AfterFunc(time.Minute, held)
		held = use(t, l, "d-70-0")
		go func() {
			time.Sleep(90 * time.Second)
			if got := m.loaded(); got != "c-15-0 d-70-0" {
				t.Errorf("loaded are %s: c was freed although that does not make room enough", got)
			}
			time.Sleep(30 * time.Second)
			held()
		}()
		use(t, l, "b-40-0")()
		if waited := time.Since(begin); waited < 2*time.Minute || m.loaded() != "b-40-0" {
			t.Errorf("after %v loaded are %s: b needs d's memory, which is in use for two minutes", waited, m.loaded())
		}
		if _, _, err := l.Use(t.Context(), "e-200-0"); err == nil || !strings.Contains(err.Error(), "RAM") {
			t.Errorf("a model larger than the machine: %v", err)
		}
	})
}

// TestLargerThanMemory: a model larger than the machine that can do with less gets all free memory, and makes room for
// others.
func TestLargerThanMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100}
		l := newLibrary(m, library.Options{Keep: -1}, "a-40-0", "b-40-0", "c-200-0-30", "d-200-0-130")
		defer l.Close()
		use(t, l, "a-40-0")()
		use(t, l, "b-40-0")()
		use(t, l, "c-200-0-30")()
		if got := m.loaded(); got != "c-200-0-30" {
			t.Errorf("loaded are %s", got)
		}
		use(t, l, "a-40-0")()
		if got := m.loaded(); got != "a-40-0" {
			t.Errorf("loaded are %s", got)
		}
		if _, _, err := l.Use(t.Context(), "d-200-0-130"); err == nil || !strings.Contains(err.Error(), "RAM") {
			t.Errorf("a model whose least is larger than the machine: %v", err)
		}
	})
}

// TestGPUMemory: the requested model gets the GPU. Idle models on it make room, and those only in RAM need not.
func TestGPUMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100, gpu: 10}
		l := newLibrary(m, library.Options{Keep: -1}, "a-5-8", "b-5-8", "c-5-0", "d-5-8")
		defer l.Close()
		use(t, l, "c-5-0")()
		use(t, l, "a-5-8")()
		use(t, l, "b-5-8")()
		if got := m.loaded(); got != "b-5-8 c-5-0" {
			t.Errorf("loaded are %s", got)
		}
		held := use(t, l, "b-5-8")
		defer held()
		use(t, l, "d-5-8")() // it gets the rest
		if got := m.loaded(); !strings.Contains(got, "b-5-8") || !strings.Contains(got, "d-5-8") {
			t.Errorf("loaded are %s", got)
		}
	})
}

func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100}
		l := newLibrary(m, library.Options{Keep: 5 * time.Minute}, "a-1-0", "b-1-0")
		defer l.Close()
		loadedAfter := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := m.loaded(); got != want {
				t.Errorf("loaded are %q, not %q", got, want)
			}
		}
		release := use(t, l, "a-1-0")
		loadedAfter(time.Hour, "a-1-0") // in use
		release()
		loadedAfter(4*time.Minute, "a-1-0")
		if left := time.Until(l.List()[0].Expires); left != time.Minute {
			t.Errorf("it says to be freed in %v", left)
		}
		use(t, l, "a-1-0")()
		loadedAfter(4*time.Minute, "a-1-0")
		loadedAfter(2*time.Minute, "")
		use(t, l, "a-1-0")()
		if err := l.Keep("a-1-0", -1); err != nil {
			t.Error(err)
		}
		loadedAfter(24*time.Hour, "a-1-0")
		if err := l.Keep("a-1-0", 0); err != nil {
			t.Error(err)
		}
		loadedAfter(time.Millisecond, "")

		release = use(t, l, "b-1-0")
		unloaded := make(chan error, 1)
		go func() { unloaded <- l.Unload(t.Context(), "b-1-0") }()
		loadedAfter(time.Minute, "b-1-0")
		release()
		if err := <-unloaded; err != nil || m.loaded() != "" {
			t.Errorf("unloading: %v, loaded are %q", err, m.loaded())
		}
		if err := l.Load(t.Context(), "b-1-0"); err != nil || m.loaded() != "b-1-0" {
			t.Errorf("loading: %v, loaded are %q", err, m.loaded())
		}
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100, fail: errors.New("damaged")}
		l := newLibrary(m, library.Options{Keep: -1}, "a-1-0", "b-1-0")
		defer l.Close()
		var known *server.Error
		if _, _, err := l.Use(t.Context(), "c"); !errors.As(err, &known) || known.Status != 404 || !strings.Contains(err.Error(), "a-1-0, b-1-0") {
			t.Errorf("no such model: %v", err)
		}
		if _, _, err := l.Use(t.Context(), ""); !errors.As(err, &known) || known.Status != 400 {
			t.Errorf("no name among several: %v", err)
		}
		if _, _, err := l.Use(t.Context(), "A-1-0"); !errors.Is(err, m.fail) {
			t.Errorf("a model that cannot be loaded: %v", err)
		}
		if s := l.List()[0].State; s != server.Failed {
			t.Errorf("its state is %s", s)
		}
		m.fail = nil
		use(t, l, "A-1-0")()
		use(t, l, "")() // the loaded one
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := l.Use(ctx, "b-1-0"); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that is gone: %v", err)
		}
		time.Sleep(2 * time.Second)
		if got := m.loaded(); got != "a-1-0 b-1-0" {
			t.Errorf("loaded are %s: loading goes on", got)
		}
	})
}

// TestManyClients: with random requests and too little memory each client gets its model, and at the end nothing is
// loaded.
func TestManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testenv.Rand(t)
		m := &machine{t: t, ram: 100, gpu: 20}
		names := []string{"a-40-5", "b-50-0", "c-20-20", "d-70-10", "e-10-3"}
		l := newLibrary(m, library.Options{Keep: time.Minute, Most: 3}, names...)
		var group sync.WaitGroup
		var answered atomic.Int64
		for range 200 {
			name, at, long := names[r.IntN(len(names))], time.Duration(r.IntN(600))*time.Second, time.Duration(r.IntN(30))*time.Second
			group.Go(func() {
				time.Sleep(at)
				release := use(t, l, name)
				if got := m.loaded(); !strings.Contains(got, name) {
					t.Errorf("%s is used and not loaded: %s", name, got)
				}
				time.Sleep(long)
				release()
				answered.Add(1)
			})
		}
		group.Wait()
		if answered.Load() != 200 {
			t.Errorf("%d of 200 were answered", answered.Load())
		}
		l.Close()
		if m.ram != 100 || m.gpu != 20 || m.loaded() != "" {
			t.Errorf("at the end %d and %d bytes are free, loaded are %q", m.ram, m.gpu, m.loaded())
		}
	})
}

// TestPeek: peeking neither loads a model nor keeps it loaded, but it is not freed meanwhile.
func TestPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100}
		l := newLibrary(m, library.Options{Keep: 5 * time.Minute}, "a-1-0")
		defer l.Close()
		if _, _, err := l.Peek("a-1-0"); err == nil || m.opened != 0 {
			t.Error("looking loaded a model")
		}
		use(t, l, "a-1-0")()
		for range 4 {
			time.Sleep(time.Minute)
			_, release, err := l.Peek("a-1-0")
			if err != nil {
				t.Fatal("a loaded model cannot be looked at")
			}
			release()
		}
		_, release, _ := l.Peek("")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := m.loaded(); got != "a-1-0" {
			t.Errorf("loaded are %q while somebody looks", got)
		}
		release()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := m.loaded(); got != "" {
			t.Errorf("loaded are %q after nobody asked for an hour", got)
		}
	})
}

// TestFailedIsTold: a model that could not be loaded is refused with the reason, as long as nothing loads it again.
func TestFailedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100, fail: errors.New("tensor 3 is damaged")}
		l := newLibrary(m, library.Options{Keep: -1, Asked: true}, "a-1-0")
		defer l.Close()
		if err := l.Load(t.Context(), "a-1-0"); !errors.Is(err, m.fail) {
			t.Fatal(err)
		}
		m.fail = nil
		_, _, looked := l.Peek("a-1-0")
		_, _, used := l.Use(t.Context(), "a-1-0")
		for status, err := range map[int]error{503: looked, 400: used} {
			known, ok := errors.AsType[*server.Error](err)
			if !ok || known.Status != status || !strings.Contains(err.Error(), "tensor 3 is damaged; ") || !strings.Contains(err.Error(), "POST /models/load") {
				t.Errorf("%v", err)
			}
		}
		if err := l.Load(t.Context(), "a-1-0"); err != nil {
			t.Fatal(err)
		}
		_, release, err := l.Peek("a-1-0")
		if err != nil {
			t.Fatal(err)
		}
		release()
	})
}

// TestCloseWaits: Close returns when all models are freed, also one that was being freed after its idle time.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t, ram: 100, closing: time.Minute}
		l := newLibrary(m, library.Options{Keep: time.Hour}, "a-1-0")
		use(t, l, "a-1-0")()
		time.Sleep(time.Hour + time.Second) // it is being freed
		l.Close()
		if got := m.loaded(); got != "" {
			t.Errorf("after Close loaded are %q", got)
		}
		time.Sleep(time.Hour)
	})
}
