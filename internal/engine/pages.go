package engine

import "github.com/powerinfer-go/powerinfer/internal/kvcache"

// Access to the cache for others than tasks. It holds pages meanwhile, but not the lock.

// find returns the longest prefix of labels that the cache holds, and the contents of its pages. release must follow.
// find calls header under the same lock: it says what the keys and values mean.
func (s *scheduler) find(labels []kvcache.Label, header func() error) (*kvcache.Prefix, contents, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.closed
	if err == nil {
		err = header()
	}
	if err == nil && s.stale { // all is about to be forgotten
		err = ErrNotCached
	}
	if err != nil {
		return nil, nil, err
	}
	return s.kv.Find(labels), s.pages, nil
}

// release releases a prefix's pages.
func (s *scheduler) release(p *kvcache.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Release()
	s.notify()
}

// erase frees the pages that hold a text and serve no other.
func (s *scheduler) erase(text []kvcache.Label) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kv.Erase(text)
	return s.closed
}

// begin returns a sequence for n positions from outside the model, in layers with windows from page near on. adopt must
// follow.
func (s *scheduler) begin(n, near int) (*kvcache.Sequence, contents, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return nil, nil, s.closed
	}
	seq := s.kv.NewSequence()
	seq.Begin(n, near)
	return seq, s.pages, nil
}

// extend reports whether seq, which has adopted nothing yet, has pages for n positions. Idle prefixes make room for it,
// tasks do not.
func (s *scheduler) extend(seq *kvcache.Sequence, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seq.Reserve(n)
}

// adopt ends the filling of seq. Its pages then hold labels and stay for later sequences; after an error of fits they
// hold nothing. adopt calls fits under the same lock to check that the model would still compute the same. Pages of a
// cache that was given up meanwhile are lost.
func (s *scheduler) adopt(seq *kvcache.Sequence, pages contents, labels []kvcache.Label, fits func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.closed
	if err == nil {
		err = fits()
	}
	if err == nil && (pages != s.pages || s.stale) {
		err = errChanged
	}
	if err == nil {
		seq.Append(labels...)
	}
	seq.Release()
	s.notify()
	return err
}
