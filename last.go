package powerinfer

import "sync"

// last caches one value: that of the last key. Successive uses mostly ask for the same key.
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
