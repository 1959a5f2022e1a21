package disk

import (
	"runtime"
	"slices"
	"time"
)

// ring reads many batches without a thread for each. All methods except wait are called with the Reader's mutex held.
type ring interface {
	// push takes a batch that submit begins to read; false: the ring cannot read it.
	push(b *batch) bool
	// submit begins to read what was pushed and returns the batches that it could not begin.
	submit() (left []*batch)
	// wait returns when a batch came, sometimes earlier.
	wait() error
	// next returns a batch that came, and how many of its bytes; a negative number: it could not be read. A nil batch:
	// none came.
	next() (b *batch, bytes int)
	close()
}

// mostFlown bounds the bytes read by a ring. From 64 KiB on a thread begins a read about as cheaply, but only once it
// has a core, and whoever asks for pieces may keep all cores busy.
const mostFlown = 4 << 20

// fly gives a batch to the ring and reports whether it could. mu is held.
func (r *Reader) fly(b *batch) bool {
	if r.ring == nil || b.from == b.to || b.to-b.from > mostFlown {
		return false
	}
	f := b.pieces[0].File
	if !f.mu.TryRLock() { // it is being closed
		return false
	}
	if f.source == nil || !r.ring.push(b) {
		f.mu.RUnlock()
		return false
	}
	r.flying++
	return true
}

// launch begins what was given to the ring. mu must be held.
func (r *Reader) launch() {
	for _, b := range r.ring.submit() {
		r.land(b)
		go b.run()
	}
	if r.flying > 0 && !r.led {
		r.led = true
		go r.leadFn()
	}
}

// land takes a batch out of the ring. mu is held.
func (r *Reader) land(b *batch) {
	r.flying--
	b.pieces[0].File.mu.RUnlock()
}

// lead waits for batches of the ring. When some have come, the next goroutine leads, and this one works on them: on
// busy cores it takes long until another one begins.
func (r *Reader) lead() {
	for came := false; !came; {
		failed := r.ring.wait()
		if failed != nil {
			time.Sleep(time.Millisecond) // nothing says when something comes
		}
		r.mu.Lock()
		for b, bytes := r.ring.next(); b != nil; b, bytes = r.ring.next() {
			r.land(b)
			r.came(b)
			b.came, came = bytes, true
			r.landed = append(r.landed, b)
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	r.led = false
	r.start()
	most := runtime.GOMAXPROCS(0)
	for n := len(r.landed); n > handful && r.hands < most-1; n -= handful {
		r.hands++
		go r.workFn()
	}
	if r.hands < most {
		r.hands++
		defer r.work()
	}
	r.mu.Unlock()
}

// handful is the number of batches that a goroutine works on at a time, at most. Taking a lock for each would take as
// long as the work on a small one.
const handful = 8

// work calls Done for batches that came out of the ring, until there are none.
func (r *Reader) work() {
	var some [handful]*batch
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.landed) > 0 {
		n := copy(some[:max(1, min(handful, len(r.landed)/r.hands))], r.landed)
		r.landed = slices.Delete(r.landed, 0, n)
		r.mu.Unlock()
		for _, b := range some[:n] {
			var err error
			if b.came < b.least() { // it is read again, to the end or for the error
				err = b.read()
			}
			b.give(err)
		}
		r.mu.Lock()
		for _, b := range some[:n] {
			r.leave(b)
		}
		if r.reading <= r.depth/2 { // many at once cost less
			r.start()
		}
	}
	r.hands--
}
