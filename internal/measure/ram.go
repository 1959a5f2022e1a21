package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// RAM is what memory gives to a number of threads.
type RAM struct {
	Threads int     `json:"threads"`
	Stream  float64 `json:"stream"`        // read in order
	Way     string  `json:"way,omitempty"` // the way that was fastest
	Rows    []Rows  `json:"rows"`          // read on scattered rows, by rising size
}

// Rows is the bandwidth of scattered rows of one size.
type Rows struct {
	Bytes int     `json:"bytes"`
	Read  float64 `json:"read"`
}

// rowSizes returns the rows of 4096 elements in Q4_0 and in F16: the usual neuron's.
func rowSizes() []int { return []int{4096 / 32 * 18, 4096 * 2} }

// Row returns the bandwidth of scattered rows of this size: that of the nearest measured size, or Stream if none was
// measured.
func (r RAM) Row(bytes int) float64 {
	best, v := -1, r.Stream
	for _, row := range r.Rows {
		if d := max(row.Bytes-bytes, bytes-row.Bytes); best < 0 || d < best {
			best, v = d, row.Read
		}
	}
	return v
}

// threadCounts are one, half of and all cores.
func threadCounts(cores int) []int {
	return slices.Compact([]int{1, max((cores+1)/2, 1), max(cores, 1)})
}

// ramSteps returns how many figures measuring RAM once takes.
func ramSteps(cores int) int { return len(threadCounts(cores)) * (1 + len(rowSizes())) }

// A reader measures how fast threads read memory, in bytes per second.
type reader interface {
	size() int64 // bytes that are read
	stream(threads int) (speed float64, way string, err error)
	rows(threads, rowBytes int) float64
}

// memory reads a buffer.
type memory struct{ buf []byte }

func (m memory) size() int64                                 { return int64(len(m.buf)) }
func (m memory) stream(threads int) (float64, string, error) { return stream(m.buf, threads) }
func (m memory) rows(threads, rowBytes int) float64          { return scattered(m.buf, threads, rowBytes) }

// attempts is how often doubtful RAM figures are measured.
const attempts = 3

// measureRAM sets m.RAM and m.Taken; it takes about two seconds for each number of threads. Doubtful figures are
// measured again, and the faster ones are kept: other programs make memory slower, never faster. step is called after
// each figure, and again before each new attempt.
func (m *Machine) measureRAM(ctx context.Context, r reader, busy func() int, step, again func()) error {
	m.Taken = &Taken{At: time.Now().UTC().Truncate(time.Second), Buffer: r.size(), Caches: int64(hw.Detect().L3All)}
	for try := range attempts {
		before := busy()
		ram, err := readRAM(ctx, r, m.Cores, step)
		if err != nil {
			return err
		}
		now := max(before, busy())
		if try == 0 {
			m.RAM, m.Taken.Busy = ram, now
		} else {
			m.faster(ram)
			m.Taken.Busy = min(m.Taken.Busy, now)
		}
		if m.Taken.Doubts = m.doubts(); len(m.Taken.Doubts) == 0 {
			break
		}
		if try+1 < attempts {
			again()
		}
	}
	return nil
}

// readRAM measures once with each number of threads.
func readRAM(ctx context.Context, r reader, cores int, step func()) (ram []RAM, err error) {
	for _, n := range threadCounts(cores) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := RAM{Threads: n}
		if t.Stream, t.Way, err = r.stream(n); err != nil {
			return nil, err
		}
		step()
		for _, bytes := range rowSizes() {
			t.Rows = append(t.Rows, Rows{bytes, r.rows(n, bytes)})
			step()
		}
		ram = append(ram, t)
	}
	return ram, nil
}

// faster takes over the faster figures of ram, which has the same numbers of threads and sizes of rows.
func (m *Machine) faster(ram []RAM) {
	for i, r := range ram {
		to := &m.RAM[i]
		if r.Stream > to.Stream {
			to.Stream, to.Way = r.Stream, r.Way
		}
		for j, row := range r.Rows {
			to.Rows[j].Read = max(to.Rows[j].Read, row.Read)
		}
	}
}

// Figures contradict each other if they differ by more than noise, the difference of repeated measurements on an idle
// machine. Other programs matter if they take more than busyShare of a core.
const (
	noise     = 1.15
	busyShare = 8
)

// doubts says what makes the figures of RAM doubtful, a sentence each.
func (m *Machine) doubts() (list []string) {
	if b := m.Taken.Busy; b*busyShare > m.Cores {
		list = append(list, fmt.Sprintf("other programs were busy with %s", counted(b, "task")))
	}
	for i, r := range m.RAM {
		for _, row := range r.Rows {
			if row.Read > noise*r.Stream {
				list = append(list, fmt.Sprintf("%s read scattered rows of %d bytes at %.1f GB/s, but memory in order at %.1f", counted(r.Threads, "thread"), row.Bytes, row.Read/1e9, r.Stream/1e9))
			}
		}
		if i > 0 && noise*r.Stream < m.RAM[i-1].Stream {
			list = append(list, fmt.Sprintf("%s read at %.1f GB/s, but %s at %.1f", counted(r.Threads, "thread"), r.Stream/1e9, counted(m.RAM[i-1].Threads, "thread"), m.RAM[i-1].Stream/1e9))
		}
	}
	return list
}

// counted returns "1 thread" or "2 threads".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
