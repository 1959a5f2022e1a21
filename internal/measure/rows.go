package measure

import (
	"math/rand/v2"
	"time"
)

const (
	rowDensity = 10                     // one row in this many is read, as of neurons at 90 % sparsity
	rowPart    = 64                     // rows claimed at once
	rowWarm    = 3                      // passes that are not counted: they evict from the caches what was read before
	rowsAhead  = 4                      // rows between the read one and the prefetched one
	rowTime    = 300 * time.Millisecond // of passes
)

// scattered returns what memory gives to threads that read every tenth row or so of rowBytes each, in order but with gaps
// of random length, and ask for rows a few ahead: as the kernels read active neurons. Bytes per second of the rows that
// are read. No row is read again before all others, so that no cache holds it.
func scattered(buf []byte, threads, rowBytes int) float64 {
	lists := deal(rand.New(rand.NewPCG(1, 2)), len(buf)/rowBytes)
	read := func(pass int) (int, time.Duration) {
		rows := lists[pass%rowDensity]
		took, _ := readRows(buf, rows, rowBytes, threads)
		return len(rows) * rowBytes, took
	}
	for pass := range rowWarm {
		read(rowDensity - rowWarm + pass)
	}
	return fastestPass(rowTime, read)
}

// deal deals n rows out to rising lists at random.
func deal(rng *rand.Rand, n int) [rowDensity][]int32 {
	var lists [rowDensity][]int32
	for i := range n {
		to := rng.IntN(rowDensity)
		lists[to] = append(lists[to], int32(i))
	}
	return lists
}

// readRows reads the rows of buf once with all threads.
func readRows(buf []byte, rows []int32, rowBytes, threads int) (time.Duration, uint64) {
	row := func(i int) []byte { at := int(rows[i]) * rowBytes; return buf[at : at+rowBytes] }
	return parallel(threads, len(rows), rowPart, func(from, to int) (sum uint64) {
		for i := from; i < to; i++ {
			sum += sumRow(row(i), row(min(i+rowsAhead, to-1)))
		}
		return sum
	})
}
