package disk

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uring is an io_uring: reads without a thread for each, begun by one system call for several. All methods except wait
// need a mutex.
//
// Source: io_uring(7), io_uring_enter(2), linux/io_uring.h.
type uring struct {
	fd     int
	memory []byte // the heads and tails of both queues, the array of indices, and completions
	slots  []byte // submissions

	subHead, subTail *uint32
	indices          []uint32 // of submissions; their number is a power of two
	submissions      []submission
	comHead, comTail *uint32
	completions      []completion

	flying  []*batch // by the number that a submission carries
	unused  []uint64 // numbers
	pending int      // submissions that the kernel does not know yet
}

// submission is struct io_uring_sqe.
type submission struct {
	op, flags uint8
	priority  uint16
	fd        int32
	offset    uint64
	address   uint64
	bytes     uint32
	_         uint32
	number    uint64
	_         [3]uint64
}

// completion is struct io_uring_cqe.
type completion struct {
	number uint64
	result int32
	_      uint32
}

// uringParams is struct io_uring_params. Its offsets refer to mapped memory.
type uringParams struct {
	submissions, completions, flags, cpu, idle, features, workers uint32
	_                                                             [3]uint32
	sub                                                           struct{ head, tail, mask, entries, flags, dropped, array, _, _, _ uint32 }
	com                                                           struct{ head, tail, mask, entries, overflow, completions, flags, _, _, _ uint32 }
}

const (
	features        = 1<<0 | 1<<3 // IORING_FEAT_SINGLE_MMAP, memory has both queues, and IORING_FEAT_RW_CUR_POS, of Linux 5.6 as opRead
	submissionsAt   = 1 << 28     // IORING_OFF_SQES
	opRead          = 22          // IORING_OP_READ
	waitForOne      = 1 << 0      // IORING_ENTER_GETEVENTS
	mostSubmissions = 1 << 12     // what any kernel allows
)

// newRing returns an io_uring for this many reads at once; nil if the kernel has none or does not allow it, as in many
// containers.
func newRing(depth int) ring {
	if depth > mostSubmissions {
		return nil
	}
	var p uringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil
	}
	r := &uring{fd: int(fd)}
	if p.features&features != features || r.mapped(&p) != nil {
		r.close()
		return nil
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.memory[offset])) }
	r.subHead, r.subTail, r.indices = at(p.sub.head), at(p.sub.tail), unsafe.Slice(at(p.sub.array), p.submissions)
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.slots[0])), p.submissions)
	r.comHead, r.comTail = at(p.com.head), at(p.com.tail)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&r.memory[p.com.completions])), p.completions)
	r.flying = make([]*batch, depth)
	for i := range depth {
		r.unused = append(r.unused, uint64(i))
	}
	return r
}

// mapped maps the queues.
func (r *uring) mapped(p *uringParams) (err error) {
	const access, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	bytes := max(p.sub.array+p.submissions*4, p.com.completions+p.completions*uint32(unsafe.Sizeof(completion{})))
	if r.memory, err = unix.Mmap(r.fd, 0, int(bytes), access, flags); err != nil {
		return err
	}
	r.slots, err = unix.Mmap(r.fd, submissionsAt, int(p.submissions)*int(unsafe.Sizeof(submission{})), access, flags)
	return err
}

func (r *uring) push(b *batch) bool {
	if len(r.unused) == 0 {
		return false
	}
	o, ok := b.pieces[0].File.source.(*opened)
	if !ok || o.fd < 0 {
		return false
	}
	last := len(r.unused) - 1
	number := r.unused[last]
	r.unused, r.flying[number] = r.unused[:last], b
	tail := *r.subTail
	i := tail & uint32(len(r.submissions)-1)
	r.submissions[i] = submission{
		op: opRead, fd: int32(o.fd), offset: uint64(b.from), bytes: uint32(b.to - b.from), number: number,
		address: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.memory)))),
	}
	r.indices[i] = i
	atomic.StoreUint32(r.subTail, tail+1)
	r.pending++
	return true
}

func (r *uring) submit() (left []*batch) {
	for r.pending > 0 {
		// The call does not wait, so Go's scheduler need not know of it.
		n, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.pending), 0, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			break
		}
		r.pending -= int(n)
	}
	// The kernel takes submissions only in that call, so what it left can be taken back.
	for head, tail := atomic.LoadUint32(r.subHead), *r.subTail; tail != head; {
		tail--
		left = append(left, r.landed(r.submissions[tail&uint32(len(r.submissions)-1)].number))
		atomic.StoreUint32(r.subTail, tail)
	}
	r.pending = 0
	return left
}

// landed returns the batch with this number and frees the number.
func (r *uring) landed(number uint64) *batch {
	b := r.flying[number]
	r.flying[number] = nil
	r.unused = append(r.unused, number)
	return b
}

func (r *uring) wait() error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 1, waitForOne, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return errno
	}
	return nil
}

func (r *uring) next() (b *batch, bytes int) {
	head := *r.comHead
	if head == atomic.LoadUint32(r.comTail) {
		return nil, 0
	}
	c := r.completions[head&uint32(len(r.completions)-1)]
	atomic.StoreUint32(r.comHead, head+1)
	return r.landed(c.number), int(c.result)
}

func (r *uring) close() {
	for _, m := range [][]byte{r.memory, r.slots} {
		if m != nil {
			free(m)
		}
	}
	_ = unix.Close(r.fd)
}
