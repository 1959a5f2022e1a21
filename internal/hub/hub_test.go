package hub

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
)

// content returns bytes that differ from seed to seed.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

const fileSize = 1 << 20

// standIn returns a hub with usual repositories, and a client of it with an empty cache that does not wait between
// tries.
func standIn(t *testing.T) (*hubtest.Hub, *Hub) {
	t.Helper()
	s := hubtest.New()
	t.Cleanup(s.Close)
	s.Repos["user/one"] = &hubtest.Repo{Files: map[string][]byte{
		"README.md": []byte("# one\n"), "one-Q8_0.gguf": content(1, fileSize), "one-Q4_K_M.gguf": content(2, fileSize), "one-BF16.gguf": content(3, 100),
		"one-F16.gguf": content(4, 100), "mmproj-one-F16.gguf": content(5, 100), "folder/one-UD-Q2_K.gguf": content(6, 100),
	}}
	s.Repos["user/parts"] = &hubtest.Repo{Files: map[string][]byte{
		"Q5_K_M/big-Q5_K_M-00001-of-00003.gguf": content(11, fileSize), "Q5_K_M/big-Q5_K_M-00002-of-00003.gguf": content(12, fileSize),
		"Q5_K_M/big-Q5_K_M-00003-of-00003.gguf": content(13, 1000), "big-Q6_K-00001-of-00002.gguf": content(14, 10),
	}}
	return s, client(t, s, Options{Folder: t.TempDir()})
}

func client(t *testing.T, s *hubtest.Hub, o Options) *Hub {
	t.Helper()
	o.Endpoint, o.Links = s.URL, !o.Links // on unless a test says Links to switch it off
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return h
}

func name(t *testing.T, s string) Name {
	t.Helper()
	n, err := ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pulled pulls a model and compares its files with the hub's.
func pulled(t *testing.T, s *hubtest.Hub, h *Hub, model string) Model {
	t.Helper()
	m, err := h.Pull(t.Context(), name(t, model), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, s, m)
	return m
}

// same compares a model's files with the hub's.
func same(t *testing.T, s *hubtest.Hub, m Model) {
	t.Helper()
	for _, path := range m.Files {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, file, _ := strings.Cut(filepath.ToSlash(path), m.Commit+"/")
		if want := s.Repos[m.Repo].Files[file]; want == nil || !bytes.Equal(got, want) {
			t.Errorf("%s holds %d bytes, not the %d of the hub's %s", path, len(got), len(want), file)
		}
	}
}

// distributed counts the requests for files' contents.
func distributed(s *hubtest.Hub) (list []hubtest.Request) {
	for _, r := range s.Log() {
		if r.Distributor {
			list = append(list, r)
		}
	}
	return list
}

// TestLayout: the cache has the layout of huggingface_hub's documentation, and models are found in it without the
// network.
func TestLayout(t *testing.T) {
	s, h := standIn(t)
	m := pulled(t, s, h, "user/one")
	if m.Name != "user/one:Q4_K_M" || !m.Complete || m.Size != fileSize {
		t.Errorf("%+v", m)
	}
	commit, sha := s.Repos["user/one"].Commit(), hubtest.SHA256(s.Repos["user/one"].Files["one-Q4_K_M.gguf"])
	dir := filepath.Join(h.Folder(), "models--user--one")
	link := filepath.Join(dir, "snapshots", commit, "one-Q4_K_M.gguf")
	if m.Path() != link {
		t.Errorf("path %s, not %s", m.Path(), link)
	}
	if target, err := os.Readlink(link); err != nil || filepath.ToSlash(target) != "../../blobs/"+sha {
		t.Errorf("the link leads to %q (%v)", target, err)
	}
	if ref, err := os.ReadFile(filepath.Join(dir, "refs", "main")); err != nil || string(ref) != commit {
		t.Errorf("refs/main holds %q (%v)", ref, err)
	}
	nested := pulled(t, s, h, "user/one:ud-q2_k")
	if target, err := os.Readlink(nested.Path()); err != nil || !strings.HasPrefix(filepath.ToSlash(target), "../../../blobs/") {
		t.Errorf("the link in a folder leads to %q (%v)", target, err)
	}
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if err != nil || len(blobs) != 2 {
		t.Errorf("blobs: %v (%v)", blobs, err)
	}
	before := len(s.Log())
	again, err := h.Resolve(t.Context(), name(t, "user/one"))
	if err != nil || again.Path() != link || again.Name != m.Name {
		t.Errorf("resolved %+v (%v)", again, err)
	}
	if n := len(s.Log()); n != before {
		t.Errorf("%d requests for what is in the cache", n-before)
	}
	pulled(t, s, h, "user/one")
	if list := distributed(s); len(list) != 2 {
		t.Errorf("%d files were fetched, not two", len(list))
	}
}

// TestWithoutLinks: without symbolic links the file itself is in the snapshot, and works as well.
func TestWithoutLinks(t *testing.T) {
	s, _ := standIn(t)
	h := client(t, s, Options{Folder: t.TempDir(), Links: true})
	m := pulled(t, s, h, "user/parts:Q5_K_M")
	for _, path := range m.Files {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v (%v)", path, info, err)
		}
	}
	pulled(t, s, h, "user/parts:Q5_K_M")
	if list := distributed(s); len(list) != 3 {
		t.Errorf("%d files were fetched, not three", len(list))
	}
	if gone, err := h.Remove(t.Context(), name(t, "user/parts:Q5_K_M")); err != nil || gone.Bytes != m.Size {
		t.Errorf("%+v (%v)", gone, err)
	}
}

func TestChoice(t *testing.T) {
	s, h := standIn(t)
	for model, want := range map[string]string{
		"user/one": "one-Q4_K_M.gguf", "user/one:q8_0": "one-Q8_0.gguf", "user/one:F16": "one-F16.gguf", "user/one:bf16": "one-BF16.gguf",
		"user/one:Q2_K": "folder/one-UD-Q2_K.gguf", "hf.co/user/one:latest": "one-Q4_K_M.gguf", "user/one/one-F16.gguf": "one-F16.gguf",
		"https://huggingface.co/user/one/blob/main/one-Q8_0.gguf?download=true": "one-Q8_0.gguf",
		"user/parts": "Q5_K_M/big-Q5_K_M-00001-of-00003.gguf", "user/parts/Q5_K_M/big-Q5_K_M-00002-of-00003.gguf": "Q5_K_M/big-Q5_K_M-00001-of-00003.gguf",
	} {
		if m := pulled(t, s, h, model); !strings.HasSuffix(filepath.ToSlash(m.Path()), s.Repos[m.Repo].Commit()+"/"+want) {
			t.Errorf("%s is %s", model, m.Path())
		} else if back, err := h.Resolve(t.Context(), name(t, m.Name)); err != nil || back.Path() != m.Path() {
			t.Errorf("%s leads to %s (%v), not %s", m.Name, back.Path(), err, m.Path())
		}
	}
	s.Repos["user/none"] = &hubtest.Repo{Files: map[string][]byte{"model.safetensors": []byte("x"), "mmproj.gguf": []byte("x")}}
	for model, want := range map[string]string{
		"user/one:Q5_K_M":      "user/one has no Q5_K_M; it has UD-Q2_K, BF16, F16, Q4_K_M, Q8_0",
		"user/one/two.gguf":    "user/one has no two.gguf; it has folder/one-UD-Q2_K.gguf, ",
		"user/parts:Q6_K":      "part 2 of 2 is missing: big-Q6_K-00002-of-00002.gguf",
		"user/none":            "user/none has no GGUF file",
		"user/nowhere":         "there is no user/nowhere at " + s.URL + ", or it is private",
		"user/one:Q4_K_M.gguf": "user/one has no Q4_K_M.gguf",
	} {
		_, err := h.Pull(t.Context(), name(t, model), nil)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", model, err)
		}
	}
}

// A connection that is lost again and again costs nothing that was sent, and the whole is checked.
func TestLostConnections(t *testing.T) {
	s, h := standIn(t)
	s.Cut, s.Cuts = 300_000, 3
	pulled(t, s, h, "user/one:Q8_0")
	list := distributed(s)
	if len(list) != 4 {
		t.Fatalf("%d requests, not four", len(list))
	}
	for i, r := range list[1:] {
		if r.Range == "" || !strings.HasPrefix(r.IfRange, `"`) {
			t.Errorf("try %d asks for %q if it is still %q", i+2, r.Range, r.IfRange)
		}
	}
}

// TestResume: the next download continues an interrupted one, also of another client, and the bytes of both are checked
// together.
func TestResume(t *testing.T) {
	const at = 400_000
	for _, damaged := range []bool{false, true} {
		s, h := standIn(t)
		s.Cut, s.Cuts, s.Silence = at+100_000, 1, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := h.Pull(ctx, name(t, "user/one:Q8_0"), func(p Progress) {
			if p.FileDone > at {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("ended with %v", err)
		}
		part, err := filepath.Glob(filepath.Join(h.Folder(), "models--user--one", "blobs", "*.incomplete"))
		if err != nil || len(part) != 1 {
			t.Fatalf("left is %v (%v)", part, err)
		}
		info, err := os.Stat(part[0])
		if err != nil || info.Size() < at || info.Size() >= fileSize {
			t.Fatalf("left are %v bytes (%v)", info, err)
		}
		list, err := h.List()
		if err != nil || len(list) != 1 || list[0].Complete || list[0].Have != info.Size() || list[0].Size != fileSize {
			t.Errorf("listed as %+v (%v)", list, err)
		}
		if _, err := h.Resolve(t.Context(), name(t, "user/one:Q8_0")); !errors.Is(err, ErrNotFound) {
			t.Errorf("a part of a model is resolved: %v", err)
		}
		if damaged {
			b, _ := os.ReadFile(part[0])
			b[at/2] ^= 1
			if err := os.WriteFile(part[0], b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := len(distributed(s))
		var first, last Progress
		other := client(t, s, Options{Folder: h.Folder()})
		m, err := other.Pull(t.Context(), name(t, "user/one:Q8_0"), func(p Progress) {
			if first.Total == 0 {
				first = p
			}
			last = p
		})
		if err != nil {
			t.Fatal(err)
		}
		same(t, s, m)
		if first.Done != info.Size() || last.Done != fileSize || last.Total != fileSize {
			t.Errorf("went from %+v to %+v", first, last)
		}
		tries := distributed(s)[before:]
		want := 1
		if damaged {
			want = 2
		}
		if len(tries) != want || !strings.HasPrefix(tries[0].Range, "bytes=") || tries[0].IfRange == "" {
			t.Errorf("damaged %v: asked for %+v", damaged, tries)
		}
		if left, _ := filepath.Glob(filepath.Join(h.Folder(), ".locks", "*", "*.etag")); len(left) != 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// A distributor that knows no ranges sends all again; one that has another file than before does, too, because of
// If-Range.
func TestWholeAgain(t *testing.T) {
	s, h := standIn(t)
	s.Cut, s.Cuts, s.NoRanges = 300_000, 1, true
	pulled(t, s, h, "user/one:Q8_0")
	s.NoRanges = false

	dir, sha := h.Folder(), hubtest.SHA256(s.Repos["user/one"].Files["one-Q4_K_M.gguf"])
	for path, text := range map[string]string{
		filepath.Join(dir, "models--user--one", "blobs", sha+".incomplete"): "other bytes",
		filepath.Join(dir, ".locks", "models--user--one", sha+".etag"):      `"other"`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := len(distributed(s))
	pulled(t, s, h, "user/one:Q4_K_M")
	if list := distributed(s)[before:]; len(list) != 1 || list[0].IfRange != `"other"` {
		t.Errorf("asked for %+v", list)
	}
}

// Large files are asked for in pieces.
func TestPieces(t *testing.T) {
	s, h := standIn(t)
	h.piece = 400_000
	pulled(t, s, h, "user/one:Q8_0")
	var got []string
	for _, r := range distributed(s) {
		got = append(got, r.Range)
	}
	if want := []string{"bytes=0-399999", "bytes=400000-799999", "bytes=800000-1048575"}; !slices.Equal(got, want) {
		t.Errorf("asked for %v", got)
	}
}

// A content without the listed hash is never kept.
func TestDamaged(t *testing.T) {
	flip := func(_ string, b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		return b
	}
	for what, change := range map[string]func(string, []byte) []byte{
		"a byte": flip,
		"less":   func(_ string, b []byte) []byte { return b[:len(b)-1] },
		"more":   func(_ string, b []byte) []byte { return append(bytes.Clone(b), 0) },
	} {
		s, h := standIn(t)
		s.Content = change
		_, err := h.Pull(t.Context(), name(t, "user/one"), nil)
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := h.Resolve(t.Context(), name(t, "user/one")); err == nil {
			t.Errorf("%s: it is in the cache", what)
		}
		s.Content = nil
		pulled(t, s, h, "user/one")
	}
}

// A distributor that is silent is left, and the rest asked for again.
func TestSilence(t *testing.T) {
	s, h := standIn(t)
	h.stall = 50 * time.Millisecond
	s.Cut, s.Cuts, s.Silence = 400_000, 1, make(chan struct{})
	var notes []string
	h.o.Note = func(line string) { notes = append(notes, line) }
	pulled(t, s, h, "user/one:Q8_0")
	if !strings.Contains(strings.Join(notes, " "), "nothing comes any more") {
		t.Errorf("notes: %q", notes)
	}
}

// Of two who want the same file one fetches it.
func TestTwoPulls(t *testing.T) {
	s, h := standIn(t)
	other := client(t, s, Options{Folder: h.Folder()})
	var wg sync.WaitGroup
	for _, h := range []*Hub{h, other, h} {
		wg.Go(func() {
			if _, err := h.Pull(t.Context(), name(t, "user/one:Q8_0"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list := distributed(s); len(list) != 1 {
		t.Errorf("%d requests for one file", len(list))
	}
}

// A small file is whole, whoever writes it at the same time.
func TestWrite(t *testing.T) {
	_, h := standIn(t)
	r, err := h.create("user/one")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	contents := []string{strings.Repeat("a", 40), strings.Repeat("b", 40)}
	var wg sync.WaitGroup
	for _, content := range contents {
		wg.Go(func() {
			for range 100 {
				if err := r.write("refs/main", []byte(content)); err != nil {
					t.Error(err)
					return
				}
				if b, ok := r.read("refs/main", mostRef); !ok || !slices.Contains(contents, string(b)) {
					t.Errorf("%q is read", b)
				}
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(r.path("refs")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// The token goes to the hub and nowhere else.
func TestToken(t *testing.T) {
	s, _ := standIn(t)
	s.Token = "hf_secret"
	s.Repos["user/one"].Gated = true
	h := client(t, s, Options{Folder: t.TempDir()})
	_, err := h.Pull(t.Context(), name(t, "user/one"), nil)
	if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "accept its terms at "+s.URL+"/user/one") {
		t.Errorf("without a token: %v", err)
	}
	h = client(t, s, Options{Folder: t.TempDir(), Token: "hf_other"})
	if _, err := h.Pull(t.Context(), name(t, "user/one"), nil); !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), "hf_other") {
		t.Errorf("with another's token: %v", err)
	}
	h = client(t, s, Options{Folder: t.TempDir(), Token: s.Token})
	before := len(s.Log())
	pulled(t, s, h, "user/one")
	for _, r := range s.Log()[before:] {
		if (r.Token == s.Token) == r.Distributor {
			t.Errorf("%s: token %q, distributor %v", r.Path, r.Token, r.Distributor)
		}
	}
}

// From an encrypted hub nobody is sent to an address without encryption.
func TestRedirects(t *testing.T) {
	h, err := New(Options{Endpoint: "https://hub.example", Folder: t.TempDir(), Token: "hf_secret"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"https://hub.example/x": "Bearer hf_secret", "https://cdn.hub.example/x": "", "https://hub.example:444/x": "", "https://elsewhere.example/x": "",
	} {
		req, _ := http.NewRequest(http.MethodGet, address, nil)
		req.Header.Set("Authorization", "Bearer hf_secret") // as net/http may have copied it
		if err := h.redirected(req, nil); err != nil || req.Header.Get("Authorization") != want {
			t.Errorf("%s: token %q (%v)", address, req.Header.Get("Authorization"), err)
		}
	}
	for _, address := range []string{"http://hub.example/x", "http://127.0.0.1/x", "file:///etc/passwd"} {
		req, _ := http.NewRequest(http.MethodGet, address, nil)
		if err := h.redirected(req, nil); err == nil {
			t.Errorf("%s is followed", address)
		}
	}
}

// TestOffline: without a network there is an error at once, with the cached models.
func TestOffline(t *testing.T) {
	s, h := standIn(t)
	pulled(t, s, h, "user/one")
	s.Close()
	began := time.Now()
	_, err := h.Pull(t.Context(), name(t, "user/parts"), nil)
	if !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "cached are user/one:Q4_K_M") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	const atOnce = listTimeout / 4 // a busy machine needs its time, too
	if took := time.Since(began); took > atOnce {
		t.Errorf("after %v", took)
	}
	if m, err := h.Use(t.Context(), name(t, "user/one"), nil); err != nil || m.Name != "user/one:Q4_K_M" {
		t.Errorf("%+v (%v)", m, err)
	}
	off := client(t, s, Options{Folder: h.Folder(), Offline: true})
	if m, err := off.Use(t.Context(), name(t, "user/one"), nil); err != nil || m.Name != "user/one:Q4_K_M" {
		t.Errorf("%+v (%v)", m, err)
	}
	if _, err := off.Use(t.Context(), name(t, "user/parts"), nil); !errors.Is(err, ErrOffline) {
		t.Errorf("%v", err)
	}
	empty := client(t, s, Options{Folder: filepath.Join(t.TempDir(), "none")})
	if _, err := empty.Pull(t.Context(), name(t, "user/one"), nil); err == nil || !strings.Contains(err.Error(), "no model is cached") {
		t.Errorf("%v", err)
	}
	nowhere, err := New(Options{Endpoint: "http://hub.invalid", Folder: h.Folder()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nowhere.Pull(t.Context(), name(t, "user/one"), nil); !errors.Is(err, ErrOffline) {
		t.Errorf("%v", err)
	}
}

// A model that another program has put there is used as it is: huggingface_hub writes no list of files, llama.cpp
// neither.
func TestOthersFiles(t *testing.T) {
	s, h := standIn(t)
	repo := s.Repos["user/one"]
	dir := filepath.Join(h.Folder(), "models--user--one")
	sha := hubtest.SHA256(repo.Files["one-Q8_0.gguf"])
	for path, b := range map[string][]byte{"refs/main": []byte(repo.Commit() + "\n"), "blobs/" + sha: repo.Files["one-Q8_0.gguf"]} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := filepath.Join(dir, "snapshots", repo.Commit())
	if err := errors.Join(os.MkdirAll(snapshot, 0o755), os.Symlink("../../blobs/"+sha, filepath.Join(snapshot, "one-Q8_0.gguf"))); err != nil {
		t.Fatal(err)
	}
	m, err := h.Use(t.Context(), name(t, "user/one:Q8_0"), nil)
	if err != nil || len(s.Log()) != 0 || m.SHA256 != sha {
		t.Fatalf("%+v (%v), %d requests", m, err, len(s.Log()))
	}
	same(t, s, m)
	// Which file user/one means, the hub must say: the cache has not the first of the usual ones.
	if m, err = h.Use(t.Context(), name(t, "user/one"), nil); err != nil || m.Name != "user/one:Q4_K_M" {
		t.Fatalf("%+v (%v)", m, err)
	}
	pulled(t, s, h, "user/one:Q8_0")
	if list := distributed(s); len(list) != 1 {
		t.Errorf("%d files were fetched, not one", len(list))
	}
}

// TestNewCommit: after a new commit, unchanged files are not fetched again, and the old commit stays until its files
// are removed.
func TestNewCommit(t *testing.T) {
	s, h := standIn(t)
	old := pulled(t, s, h, "user/one:Q4_K_M")
	pulled(t, s, h, "user/one:Q8_0")
	before := len(distributed(s))
	s.Repos["user/one"].Files["one-Q4_K_M.gguf"] = content(99, fileSize)
	if m, err := h.Use(t.Context(), name(t, "user/one:Q4_K_M"), nil); err != nil || m.Commit != old.Commit {
		t.Errorf("what is there is not used: %+v (%v)", m, err)
	}
	m := pulled(t, s, h, "user/one:Q4_K_M")
	if m.Commit == old.Commit {
		t.Fatal("the commit is the same")
	}
	pulled(t, s, h, "user/one:Q8_0")
	if n := len(distributed(s)) - before; n != 1 {
		t.Errorf("%d files were fetched, not one", n)
	}
	gone, err := h.Remove(t.Context(), name(t, "user/one:Q4_K_M"))
	if err != nil || gone.Bytes != 2*fileSize || !slices.Equal(gone.Models, []string{"user/one:Q4_K_M"}) {
		t.Errorf("%+v (%v)", gone, err)
	}
	if list, err := h.List(); err != nil || len(list) != 1 || list[0].Name != "user/one:Q8_0" {
		t.Errorf("%+v (%v)", list, err)
	}
}

// A content that another name leads to stays.
func TestRemoveShared(t *testing.T) {
	s, h := standIn(t)
	s.Repos["user/one"].Files["copy-Q8_0.gguf"] = s.Repos["user/one"].Files["one-Q8_0.gguf"]
	pulled(t, s, h, "user/one/copy-Q8_0.gguf")
	pulled(t, s, h, "user/one/one-Q8_0.gguf")
	if list := distributed(s); len(list) != 1 {
		t.Errorf("%d requests for one content", len(list))
	}
	one, err := h.Resolve(t.Context(), name(t, "user/one/one-Q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{".neurons", ".neurons.part"} { // from it
		if err := os.WriteFile(one.Path()+made, []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := h.Remove(t.Context(), name(t, "user/one/one-Q8_0.gguf"))
	if err != nil || gone.Bytes != 10 {
		t.Errorf("%+v (%v)", gone, err)
	}
	m, err := h.Resolve(t.Context(), name(t, "user/one/copy-Q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, s, m)
	would, err := h.Removable(t.Context(), name(t, "user/one"))
	if err != nil || !would.Whole || would.Bytes != fileSize {
		t.Errorf("%+v (%v)", would, err)
	}
	if _, err := h.Remove(t.Context(), name(t, "user/one/copy-Q8_0.gguf")); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Folder(), "models--*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if _, err := h.Remove(t.Context(), name(t, "user/one")); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// Who downloads is not disturbed by who removes.
func TestRemoveWhilePulling(t *testing.T) {
	_, h := standIn(t)
	asked := false
	if _, err := h.Pull(t.Context(), name(t, "user/one:Q8_0"), func(p Progress) {
		if p.FileDone > 100_000 && !asked {
			asked = true
			if _, err := h.Remove(t.Context(), name(t, "user/one")); !errors.Is(err, ErrInUse) {
				t.Errorf("%v", err)
			}
		}
	}); err != nil || !asked {
		t.Error(err, asked)
	}
}

// Lists of many pages are read whole; a page at another address is not.
func TestPages(t *testing.T) {
	s, h := standIn(t)
	s.PageSize = 2
	pulled(t, s, h, "user/one:Q8_0")
	s.Repos["user/one"].Files["new"] = nil // another commit, so that the list is asked for
	s.URL = "http://127.0.0.2:1"
	if _, err := h.Pull(t.Context(), name(t, "user/one:Q8_0"), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

// Temporary errors are tried again, refusals are not.
func TestStatus(t *testing.T) {
	s, h := standIn(t)
	n := 0
	s.Answer = func(string) int {
		if n++; n <= 2 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	pulled(t, s, h, "user/one:F16")
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTeapot} {
		n = 0
		s.Answer = func(string) int { n++; return status }
		if _, err := h.Pull(t.Context(), name(t, "user/one"), nil); err == nil || n != 1 {
			t.Errorf("%d: %v after %d requests", status, err, n)
		}
	}
}

// TestHostile: neither names from the hub nor links in the cache lead out of the repository's folder.
func TestHostile(t *testing.T) {
	s, h := standIn(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := s.Repos["user/one"].Files
	for _, path := range []string{"../../../evil-Q4_K_M.gguf", "/evil-Q4_K_M.gguf", `..\evil-Q4_K_M.gguf`, "a/../../evil-Q4_K_M.gguf", "C:evil-Q4_K_M.gguf", "NUL.gguf", "a/con.Q4_K_M.gguf", "a//b-Q4_K_M.gguf"} {
		files[path] = []byte("evil")
	}
	pulled(t, s, h, "user/one:Q4_K_M")
	sha := hubtest.SHA256(files["one-Q8_0.gguf"])
	dir := filepath.Join(h.Folder(), "models--user--one")
	for _, link := range []string{filepath.Join(dir, "blobs", sha), filepath.Join(dir, "blobs", sha+".incomplete")} {
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Pull(t.Context(), name(t, "user/one:Q8_0"), nil); err == nil {
		t.Error("a link out of the folder is written through")
	}
	link := filepath.Join(dir, "snapshots", s.Repos["user/one"].Commit(), "one-F16.gguf")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if m, err := h.Resolve(t.Context(), name(t, "user/one:F16")); err == nil {
		t.Errorf("a link out of the folder is followed: %+v", m)
	}
	if _, err := h.Remove(t.Context(), name(t, "user/one")); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
		t.Errorf("outside holds %q (%v)", b, err)
	}
}

// TestNoRoom: missing disk space is an error before anything is fetched.
func TestNoRoom(t *testing.T) {
	s, h := standIn(t)
	p := &pull{h: h, progress: func(Progress) {}}
	var err error
	if p.r, err = h.create("user/one"); err != nil {
		t.Fatal(err)
	}
	defer p.r.close()
	err = p.room([]File{{Path: "x.gguf", Size: mostBytes, OID: strings.Repeat("0", 64)}})
	if !errors.Is(err, ErrNoRoom) || len(s.Log()) != 0 {
		t.Errorf("%v", err)
	}
}

// TestFolder: models in a folder are found by file names alone.
func TestFolder(t *testing.T) {
	_, h := standIn(t)
	dir := t.TempDir()
	for _, path := range []string{"a-Q4_0.gguf", "sub/b-00001-of-00002.gguf", "sub/b-00002-of-00002.gguf", "sub/half-00001-of-00002.gguf", ".hidden.gguf", "mmproj-a.gguf", "text.txt"} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("1234"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.List(dir)
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	if err != nil || !slices.Equal(names, []string{"a-Q4_0", "sub/b", "sub/half"}) {
		t.Errorf("%v (%v)", names, err)
	}
	m, err := h.Lookup(t.Context(), "sub/b", dir)
	if err != nil || len(m.Files) != 2 || m.Size != 8 {
		t.Errorf("%+v (%v)", m, err)
	}
	for _, name := range []string{"../" + filepath.Base(dir) + "/a-Q4_0", "sub/half", "/etc/passwd", "sub/../a-Q4_0", "text.txt", ""} {
		if m, err := h.Lookup(t.Context(), name, dir); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q is %+v (%v)", name, m, err)
		}
	}
	if _, err := h.List(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there has models")
	}
	for _, name := range []string{filepath.Join(dir, "text.txt"), os.DevNull} {
		if _, err := Folder(name); err == nil || runtime.GOOS != "windows" && !strings.Contains(err.Error(), name+" is not a folder") {
			t.Errorf("of %s: %v", name, err)
		}
	}
	link, broken := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "broken")
	if errors.Join(os.Symlink(dir, link), os.Symlink(filepath.Join(dir, "none"), broken)) != nil {
		return // no links here
	}
	linked, err := Folder(link)
	if err != nil || len(linked) != 3 || linked[0].Name != "a-Q4_0" {
		t.Errorf("of a link to the folder: %+v (%v)", linked, err)
	}
	if _, err := Folder(broken); err == nil {
		t.Error("a link to nothing has models")
	}
}
