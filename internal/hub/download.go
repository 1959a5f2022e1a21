package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// largestPiece is the size of one request: the hub's distributors send at most 50 GB in one answer.
const largestPiece = 32 << 30

// lockPoll is the time between two looks at another process's lock.
const lockPoll = 200 * time.Millisecond

// longCheck is the size in bytes from which hashing takes seconds.
const longCheck = 4 << 30

// copyBuffer is hashed and written at once.
const copyBuffer = 256 << 10

// newHash returns the hash that names a content.
func newHash(f File) hash.Hash {
	if f.sha256() != "" {
		return sha256.New()
	}
	h := sha1.New() // Git's hash, for contents that it stores itself
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// download is a content on its way into the cache.
type download struct {
	h      *Hub
	r      *repository
	commit string
	f      File
	report func(done int64) // of the file; called often

	file *os.File
	hash hash.Hash // of the done bytes
	done int64
	tag  string // ETag of the answer that the done bytes come from; empty: unknown
}

// fetch downloads a commit's file into the cache, and continues an earlier download.
func (h *Hub) fetch(ctx context.Context, r *repository, commit string, f File, report func(done int64)) error {
	l, err := h.lock(ctx, r, f)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if name, _, ok := r.found(commit, f); ok { // another process was faster, or an older commit has it
		report(f.Size)
		if strings.HasPrefix(name, "blobs/") {
			return r.link(commit, f, false)
		}
		return nil
	}
	d := &download{h: h, r: r, commit: commit, f: f, report: report}
	if err := d.run(ctx); err != nil {
		return err
	}
	return r.link(commit, f, true)
}

// lock waits until nobody else downloads that content.
func (h *Hub) lock(ctx context.Context, r *repository, f File) (*flock.Flock, error) {
	l, err := r.lock(f.OID)
	if err != nil {
		return nil, err
	}
	ok, err := l.TryLock()
	if err == nil && !ok {
		h.note("another process is downloading %s; waiting for it", f.Path)
		_, err = l.TryLockContext(ctx, lockPoll)
	}
	if err != nil {
		_ = l.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s cannot be locked: %w", l.Path(), err)
	}
	return l, nil
}

// run makes the blob. A partial download stays for the next time, unless it is damaged.
func (d *download) run(ctx context.Context) error {
	var err error
	if d.file, err = d.r.root.OpenFile(blob(d.f.OID)+partial, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	defer d.file.Close()
	if info, err := d.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is not a regular file; remove it", d.file.Name()))
	}
	if err := d.resume(ctx); err != nil {
		return err
	}
	resumed := d.done > 0
	for {
		if err := d.receive(ctx); err != nil {
			return errors.Join(err, d.file.Sync())
		}
		if hex.EncodeToString(d.hash.Sum(nil)) == d.f.OID {
			return d.finish()
		}
		if err := d.restart(); err != nil {
			return err
		}
		if !resumed {
			return failed(ErrDamaged, "what %s sends of %s has not the hash that it lists; nothing was kept", d.h.o.Endpoint, d.f.Path)
		}
		d.h.note("the earlier partial download of %s was damaged; the whole file is downloaded", d.f.Path)
		resumed = false
	}
}

// resume hashes what an earlier download left.
func (d *download) resume(ctx context.Context) error {
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > d.f.Size {
		return d.restart()
	}
	d.hash = newHash(d.f)
	d.tag = d.readTag()
	if info.Size() >= longCheck {
		d.h.note("checking the %s of %s that were downloaded before", Bytes(info.Size()), d.f.Path)
	}
	buf := make([]byte, copyBuffer)
	for d.done < info.Size() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := d.file.ReadAt(buf[:min(copyBuffer, info.Size()-d.done)], d.done)
		if n == 0 {
			return err
		}
		d.hash.Write(buf[:n])
		d.done += int64(n)
	}
	d.report(d.done)
	return nil
}

// restart drops the partial download.
func (d *download) restart() error {
	d.hash, d.done, d.tag = newHash(d.f), 0, ""
	_ = os.Remove(d.tagFile())
	d.report(0)
	return d.file.Truncate(0)
}

// finish gives the content its name.
func (d *download) finish() error {
	if err := d.file.Sync(); err != nil {
		return err
	}
	if err := closed(d.file.Close()); err != nil { // Windows renames no open file
		return err
	}
	_ = os.Remove(d.tagFile())
	return d.r.rename(blob(d.f.OID)+partial, blob(d.f.OID))
}

// tagFile returns the path of the file, next to the lock, with the ETag of a partial download.
func (d *download) tagFile() string { return filepath.Join(d.r.locks, d.f.OID+".etag") }

// longestETag bounds the stored ETag.
const longestETag = 512

func (d *download) readTag() string {
	b, err := wholefile.Read(d.tagFile(), longestETag)
	if err != nil || !strongTag(string(b)) {
		return ""
	}
	return string(b)
}

// strongTag reports whether an ETag identifies the bytes, as If-Range needs.
func strongTag(s string) bool {
	return len(s) > 2 && len(s) <= longestETag && s[0] == '"' && s[len(s)-1] == '"' && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// receive downloads the missing bytes. It retries as long as there is progress, and a few times more.
func (d *download) receive(ctx context.Context) error {
	pause, tries := firstPause, 0
	for d.done < d.f.Size {
		before := d.done
		err := d.try(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var p *passing
		if !errors.As(err, &p) && !errors.Is(err, ErrOffline) {
			return err
		}
		if d.done > before {
			pause, tries = firstPause, 0
		}
		if tries++; tries >= mostTries {
			return fmt.Errorf("%w; %s of %s are kept, and the same command goes on", err, Bytes(d.done), Bytes(d.f.Size))
		}
		if p != nil && p.after > pause {
			pause = p.after
		}
		d.h.note("%v; trying again", err)
		if err := d.h.wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longestPause)
	}
	return nil
}

// errStalled ends a try that brings nothing any more.
var errStalled = errors.New("nothing comes any more")

// try requests the missing bytes once, and keeps those that arrive.
func (d *download) try(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(d.h.stall+answerTimeout, func() { cancel(errStalled) })
	defer watch.Stop()
	resp, err := d.get(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	end, err := d.accept(resp)
	if err != nil {
		return err
	}
	buf := make([]byte, copyBuffer)
	for d.done < end {
		part := buf[:min(copyBuffer, end-d.done)]
		n, err := 0, error(nil)
		for n < len(part) && err == nil { // whole buffers are written, however little arrives at once
			watch.Reset(d.h.stall)
			var came int
			came, err = resp.Body.Read(part[n:])
			n += came
			d.report(d.done + int64(n))
		}
		if err := d.keep(part[:n]); err != nil {
			return err
		}
		if err != nil && d.done < end {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return &passing{fmt.Errorf("the connection to %s was lost (%w)", d.h.o.Endpoint, err), 0}
		}
	}
	return nil
}

// get sends the request. The answer may come from another host, but the hub's own answer on the way must match its
// list, before many bytes are downloaded in vain.
func (d *download) get(ctx context.Context) (*http.Response, error) {
	req, err := d.h.request(ctx, d.h.address(d.r.name, "resolve", d.commit, d.f.Path))
	if err != nil {
		return nil, err
	}
	if end := min(d.done+d.h.piece, d.f.Size); d.done > 0 || end < d.f.Size {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", d.done, end-1))
	}
	if d.done > 0 && d.tag != "" {
		req.Header.Set("If-Range", d.tag)
	}
	client := *d.h.client
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if err := d.checkListed(req.Response); err != nil {
			return err
		}
		return d.h.redirected(req, via)
	}
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			return nil, &passing{cause, 0}
		}
		return nil, d.h.unanswered(ctx, err)
	}
	err = d.h.status(d.r.name, resp)
	if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && d.done > 0 {
		err = errors.Join(d.restart(), &passing{failed(ErrDamaged, "%s has not as much of %s as is here", d.h.o.Endpoint, d.f.Path), 0})
	}
	if err == nil {
		err = d.checkListed(resp)
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// checkListed compares the hub's answer with its list.
func (d *download) checkListed(resp *http.Response) error {
	if resp == nil {
		return nil
	}
	etag := strings.Trim(strings.TrimPrefix(resp.Header.Get("X-Linked-Etag"), "W/"), `"`)
	size := resp.Header.Get("X-Linked-Size")
	if etag != "" && validOID(etag) && etag != d.f.OID || size != "" && size != strconv.FormatInt(d.f.Size, 10) {
		return failed(ErrDamaged, "%s sends another %s than it lists; try again later", d.h.o.Endpoint, d.f.Path)
	}
	return nil
}

// accept reads from an answer's header which bytes it has, drops the partial download if it has all, and returns their
// end.
func (d *download) accept(resp *http.Response) (end int64, err error) {
	damaged := func(what string) (int64, error) {
		return 0, failed(ErrDamaged, "%s answers for %s with %s", d.h.o.Endpoint, d.f.Path, what)
	}
	length := resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		from, to, total, ok := contentRange(resp.Header.Get("Content-Range"))
		switch {
		case !ok || from != d.done || to >= d.f.Size || to < from:
			return damaged("other bytes than those asked for")
		case total >= 0 && total != d.f.Size:
			return damaged("another size than it lists")
		}
		end = to + 1
	} else {
		if d.done > 0 {
			d.h.note("%s sends %s from its beginning", d.h.o.Endpoint, d.f.Path)
			if err := d.restart(); err != nil {
				return 0, err
			}
		}
		end = d.f.Size
	}
	if length >= 0 && length != end-d.done {
		return damaged("another size than it lists")
	}
	if tag := resp.Header.Get("ETag"); d.done == 0 && strongTag(tag) {
		d.tag = tag
		_ = os.WriteFile(d.tagFile(), []byte(tag), 0o644) // without it the rest is asked for without If-Range
	}
	return end, nil
}

// contentRange reads "bytes 5-9/10"; total is -1 for *.
func contentRange(s string) (from, to, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, ok2 := strings.Cut(s, "/")
	first, last, ok3 := strings.Cut(span, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	total = -1
	var err3 error
	if size != "*" {
		total, err3 = strconv.ParseInt(size, 10, 64)
	}
	return from, to, total, ok && ok2 && ok3 && errors.Join(err1, err2, err3) == nil && from >= 0
}

// keep appends bytes to the partial download.
func (d *download) keep(b []byte) error {
	if _, err := d.file.WriteAt(b, d.done); err != nil {
		if hw.DiskFull(err) {
			return failed(ErrNoRoom, "the disk of %s is full; %s of %s are kept: make room, and the same command goes on", d.h.o.Folder, Bytes(d.done), Bytes(d.f.Size))
		}
		return err
	}
	d.hash.Write(b)
	d.done += int64(len(b))
	return nil
}

// Bytes returns a size as people write it, in powers of ten, as on the hub's pages.
func Bytes(n int64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if float64(n) >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
