package powerinfer

import "sync"

// last holds what was made for a key, until it is asked for another one: the next use mostly has the same.
type last[V any] struct {
	mu    sync.Mutex
	made  bool
	key   string
	value V
}

// of returns the value of key, and calls make for it if it is not there.
func (l *last[V]) of(key string, make func() (V, error)) (V, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made && l.key == key {
		return l.value, nil
	}
	v, err := make()
	if err == nil {
		l.made, l.key, l.value = true, key, v
	}
	return v, err
}
