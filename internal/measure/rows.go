package measure

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	rowDensity = 10                     // one row in so many is read, as of neurons at 90 % sparsity
	rowPart    = 64                     // rows claimed at a time
	rowsAhead  = 4                      // rows between the one that is read and the one that is asked for
	rowTime    = 300 * time.Millisecond // of passes
)

// RowBandwidth is what memory gives to threads that read every tenth row or so of rowBytes each, in order but with gaps of
// random length, and ask for rows a few ahead: as the kernels read active neurons. Bytes per second of the rows that are read.
func RowBandwidth(threads, rowBytes int) (float64, error) {
	if threads < 1 || threads > 512 {
		return 0, fmt.Errorf("%d threads: give 1 to 512", threads)
	}
	if rowBytes < 64 || rowBytes > 1<<20 || rowBytes%8 != 0 {
		return 0, fmt.Errorf("rows of %d bytes: give a multiple of 8 from 64 to %d", rowBytes, 1<<20)
	}
	buf, release, err := filled()
	if err != nil {
		return 0, err
	}
	defer release()
	return scattered(buf, threads, rowBytes), nil
}

// scattered reads other rows in every pass, so that no cache holds them from the last one.
func scattered(buf []byte, threads, rowBytes int) float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	best := 0.0
	for total := time.Duration(0); total < rowTime; {
		rows := pick(rng, len(buf)/rowBytes)
		took, _ := readRows(buf, rows, rowBytes, threads)
		best = max(best, float64(len(rows)*rowBytes)/took.Seconds())
		total += took
	}
	return best
}

// pick is a rising list of about a tenth of n rows.
func pick(rng *rand.Rand, n int) []int32 {
	rows := make([]int32, 0, n/rowDensity+1)
	for i := range n {
		if rng.IntN(rowDensity) == 0 {
			rows = append(rows, int32(i))
		}
	}
	return rows
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
