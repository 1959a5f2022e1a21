package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What a request takes of memory until it is answered, measured as the growth of the process with bodies of 8 MiB: its
// body, decoded and copied, its prompt and its tokens. Many small values take far more than their bytes.
const (
	perByte   = 10   // bytes for each byte of a body
	perValue  = 100  // for each of its numbers, texts and names
	perObject = 1000 // for each of its objects and lists
)

// How the memory for requests is shared.
const (
	usualMemory = 1 << 30
	leaves      = 2                // a request leaves a part of what it takes free, for smaller ones: the half
	poolWait    = 10 * time.Second // that a request waits for others to end
	slowBody    = 10 * time.Second // after which a body that still comes in makes room for others
	unknownBody = 64 << 10         // bytes that are reserved at first where nobody says how long a body is
)

// A pool is the memory that requests may take together. One client has at most the half of it, and the larger a request
// is the more it leaves free, so that small requests pass large ones. Of those that wait the smallest is first.
type pool struct {
	mu      sync.Mutex
	most    int64 // bytes
	taken   int64
	clients map[string]int64 // taken, by client
	shares  map[*share]struct{}
	waiting []*waiter
}

// A share is what a request has of a pool. It belongs to one goroutine, but for what the pool's lock guards.
type share struct {
	pool   *pool
	client string
	giveUp func() // ends the reading of the body; called with the lock held

	bytes   int64     // guarded by the lock
	reading time.Time // when the body began to come; zero: it does not come. Guarded by the lock
	gone    bool      // the body was given up for others. Guarded by the lock
}

// A waiter is a request that waits for n more bytes.
type waiter struct {
	s       *share
	n       int64
	granted chan struct{}
}

func newPool(most int64) *pool {
	if most <= 0 {
		most = usualMemory
	}
	return &pool{most: most, clients: map[string]int64{}, shares: map[*share]struct{}{}}
}

// limits returns how much may be taken by all, and by one client, where a share of so many bytes is among it.
func (p *pool) limits(s *share, bytes int64) (all, each int64) {
	all, each = p.most-bytes/leaves, p.most/clientShare-bytes/leaves
	if s.client == "" { // a socket of the file system, where a proxy may be the only client
		each = all
	}
	return all, each
}

// fits reports whether n more bytes may be taken, and else whether it is the client's own part that is used up. The
// lock is held.
func (p *pool) fits(s *share, n int64) (ok, own bool) {
	all, each := p.limits(s, s.bytes+n)
	own = p.clients[s.client]+n > each
	return !own && p.taken+n <= all, own
}

// grant gives n bytes to s. The lock is held.
func (p *pool) grant(s *share, n int64) {
	p.taken += n
	p.clients[s.client] += n
	s.bytes += n
	p.shares[s] = struct{}{}
}

// take gives a share n more bytes, and waits for them if need be, unless the server is stopping.
func (p *pool) take(ctx context.Context, stopping <-chan struct{}, s *share, n int64) error {
	p.mu.Lock()
	if _, each := p.limits(s, s.bytes+n); s.bytes+n > each {
		need := s.bytes + n
		p.mu.Unlock()
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error",
			Message: fmt.Sprintf("the request needs about %d MiB of memory, more than one may take; send less text, or fewer values, or start the server with --request-memory %d",
				need>>20, (need+need/leaves)*clientShare>>20+1),
		}
	}
	if ok, _ := p.fits(s, n); ok {
		p.grant(s, n)
		p.mu.Unlock()
		return nil
	}
	w := &waiter{s, n, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	return p.wait(ctx, stopping, w)
}

// wait waits until w is granted, and has slow bodies make room.
func (p *pool) wait(ctx context.Context, stopping <-chan struct{}, w *waiter) error {
	ticks := time.NewTicker(poolWait / 10)
	defer ticks.Stop()
	end := time.NewTimer(poolWait)
	defer end.Stop()
	for {
		var err error
		p.hurry(w)
		select {
		case <-w.granted:
			return nil
		case <-ticks.C:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-stopping:
			err = context.Canceled
		case <-end.C:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.waiting, w)
		if i < 0 { // granted just now
			return nil
		}
		p.waiting = slices.Delete(p.waiting, i, i+1)
		if err != nil {
			return err
		}
		if _, own := p.fits(w.s, w.n); own {
			return &Error{
				Status: http.StatusTooManyRequests, Type: "rate_limit_error", RetryAfter: retryAfter,
				Message: "the requests of this address that are being answered are too large together; try again later",
			}
		}
		return errHeld
	}
}

// errHeld refuses a request where the others take too much memory.
var errHeld = Unavailable("the requests that are being answered are too large together; try again later")

// hurry gives up the body that has come in for the longest time, if that is long, where w waits for its memory.
func (p *pool) hurry(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, own := p.fits(w.s, w.n)
	var slow *share
	for s := range p.shares {
		if ok || s == w.s || s.gone || s.reading.IsZero() || time.Since(s.reading) < slowBody || own && s.client != w.s.client {
			continue
		}
		if slow == nil || s.reading.Before(slow.reading) {
			slow = s
		}
	}
	if slow != nil {
		slow.gone = true
		slow.giveUp()
	}
}

// give takes n bytes back, and gives them to those that wait.
func (p *pool) give(s *share, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	if p.clients[s.client] -= n; p.clients[s.client] == 0 {
		delete(p.clients, s.client)
	}
	if s.bytes -= n; s.bytes == 0 {
		delete(p.shares, s)
	}
	slices.SortStableFunc(p.waiting, func(a, b *waiter) int { return int(min(1, max(-1, a.s.bytes+a.n-b.s.bytes-b.n))) })
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool {
		ok, _ := p.fits(w.s, w.n)
		if ok {
			p.grant(w.s, w.n)
			close(w.granted)
		}
		return ok
	})
}

// more takes n more bytes. A share of no pool may take what it likes.
func (s *share) more(ctx context.Context, stopping <-chan struct{}, n int64) error {
	if s.pool == nil || n <= 0 {
		return nil
	}
	return s.pool.take(ctx, stopping, s, n)
}

// read says that the request's body begins to come, or has come.
func (s *share) read(begins bool) {
	if s.pool == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.reading = (time.Time{}); begins {
		s.reading = time.Now()
	}
}

// lost reports whether the body was given up for others.
func (s *share) lost() bool {
	if s.pool == nil {
		return false
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.gone
}

// release gives all back.
func (s *share) release() {
	if s.pool == nil {
		return
	}
	s.pool.mu.Lock()
	n := s.bytes
	s.pool.mu.Unlock()
	if n > 0 {
		s.pool.give(s, n)
	}
}
