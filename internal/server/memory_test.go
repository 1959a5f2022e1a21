package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestManySlowBodies: if several slow bodies must make room for a request, it gets their memory at once, and the others
// continue.
func TestManySlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1000)
		gone := 0
		for i := range 10 {
			s := &share{pool: p, client: string(rune('a' + i))}
			s.giveUp = func() { gone++; go s.release() }
			if err := s.more(t.Context(), nil, 90); err != nil {
				t.Fatal(err)
			}
			s.read(true)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(slowBody)
		began := time.Now()
		big := &share{pool: p, client: "big"}
		if err := big.more(context.Background(), nil, 300); err != nil {
			t.Fatal(err)
		}
		// 850 may be taken with it, so 350 of 900 must be given back.
		if took := time.Since(began); gone != 4 || took != 0 {
			t.Errorf("%d bodies were given up, and it took %v", gone, took)
		}
	})
}
