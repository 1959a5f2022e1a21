package disk

import (
	"errors"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

// opened is a file with a second handle, which takes several reads at once.
type opened struct {
	file   *os.File
	handle windows.Handle // windows.InvalidHandle: there is no second one
}

var reOpenFile = windows.NewLazySystemDLL("kernel32.dll").NewProc("ReOpenFile")

// direct opens the file again, so that several threads read it at once, past the cache. Windows does one read after the
// other with a handle that is not for overlapped reads.
func direct(f *os.File) (s source, align int64, ok bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, 0, false, err
	}
	o := &opened{file: f}
	err = conn.Control(func(fd uintptr) { align, ok = o.reopen(windows.Handle(fd)) })
	return o, align, ok, err
}

// reopen sets the handle, one past the cache if possible.
func (o *opened) reopen(h windows.Handle) (align int64, direct bool) {
	if o.again(h, windows.FILE_FLAG_NO_BUFFERING) {
		align := sector(h)
		for _, align := range []int64{align, max(align, usualAlign)} {
			if o.tried(align) {
				return align, true
			}
		}
		_ = windows.CloseHandle(o.handle)
	}
	o.again(h, windows.FILE_FLAG_RANDOM_ACCESS)
	return usualAlign, false
}

// again opens the file of h for overlapped reads and reports whether it could.
func (o *opened) again(h windows.Handle, flag uint32) bool {
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	again, _, _ := reOpenFile.Call(uintptr(h), windows.GENERIC_READ, share, uintptr(flag|windows.FILE_FLAG_OVERLAPPED))
	o.handle = windows.Handle(again)
	return o.handle != windows.InvalidHandle
}

// sector returns the size of the disk's sectors, in bytes.
func sector(h windows.Handle) int64 {
	// Source: FILE_STORAGE_INFO of Microsoft's documentation.
	var info struct {
		Logical, PhysicalAtomic, PhysicalPerformance, EffectiveAtomic, Flags, OffsetAlignment, OffsetPartition uint32
	}
	const storageInfo = 16 // FileStorageInfo
	err := windows.GetFileInformationByHandleEx(h, storageInfo, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	n := int64(info.Logical)
	if err != nil || n < 512 || n > 64<<10 || n&(n-1) != 0 {
		return usualAlign
	}
	return n
}

// tried reports whether the file can be read with this alignment.
func (o *opened) tried(align int64) bool {
	b, err := allocate(int(align))
	if err != nil {
		return false
	}
	defer free(b)
	_, err = o.readAt(b, 0)
	return !errors.Is(err, windows.ERROR_INVALID_PARAMETER)
}

func (o *opened) readAt(b []byte, offset int64) (int, error) {
	if o.handle == windows.InvalidHandle {
		n, err := o.file.ReadAt(b, offset)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateEvent", err)
	}
	defer windows.CloseHandle(event)
	at := &windows.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32), HEvent: event}
	var keep runtime.Pinner // a stack may move while the system writes to it
	keep.Pin(at)
	defer keep.Unpin()
	var n uint32
	if err = windows.ReadFile(o.handle, b, nil, at); err == nil || errors.Is(err, windows.ERROR_IO_PENDING) {
		err = windows.GetOverlappedResult(o.handle, at, &n, true)
	}
	if errors.Is(err, windows.ERROR_HANDLE_EOF) {
		return int(n), nil
	}
	return int(n), os.NewSyscallError("ReadFile", err)
}

func (o *opened) Close() error {
	if o.handle != windows.InvalidHandle {
		_ = windows.CloseHandle(o.handle)
	}
	return o.file.Close()
}

// passes reports whether a read that failed with err may succeed if it is tried again at once.
func passes(err error) bool {
	return errors.Is(err, windows.ERROR_OPERATION_ABORTED) || errors.Is(err, windows.ERROR_NO_SYSTEM_RESOURCES)
}

func allocate(bytes int) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, os.NewSyscallError("VirtualAlloc", err)
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), bytes), nil
}

func free(b []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0, windows.MEM_RELEASE)
}

// uncache has nothing to do: reads past the cache do not look there.
func uncache(*os.File) {}
