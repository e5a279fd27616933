package instructions

import (
	"regexp"
	"strings"
)

// Part is a part of a call, by where the function is whose instructions count.
// What the compiler has inlined counts for the function that it is inlined into.
type Part string

// The parts of a call.
const (
	Coding     Part = "coding"
	Allocation Part = "allocation, collection"
	Copies     Part = "copies, maps"
	Stacks     Part = "stacks"
	Scheduling Part = "scheduling, channels, locks, time"
	IO         Part = "system calls, polling"
	Itself     Part = "the system"
	Load       Part = "load generator"
	Rest       Part = "the rest"
)

// inOrder are all parts in the order of the table.
var inOrder = []Part{Coding, Allocation, Copies, Stacks, Scheduling, IO, Itself, Load, Rest}

const module = "github.com/tandem-rpc/tandem"

// packages are which part a package belongs to, by the beginning of its path;
// the first that fits counts. The runtime's functions are told apart by name.
var packages = []struct {
	path string
	part Part
}{
	{module + "/bench/message", Coding},
	{"google.golang.org/protobuf", Coding},
	{"github.com/planetscale/vtprotobuf", Coding},
	{module + "/bench/load", Load},
	{"github.com/HdrHistogram", Load},
	{module + "/transport", IO},
	{module, Itself},
	{"main", Itself}, // the peer's own
	{"net/rpc", Itself},
	{"internal/runtime/maps", Copies},
	{"internal/bytealg", Copies},
	{"internal/runtime/gc", Allocation},
	{"internal/runtime/syscall", IO},
	{"internal/runtime", Scheduling},
	{"syscall", IO},
	{"internal/syscall", IO},
	{"internal/poll", IO},
	{"net", IO},
	{"sync", Scheduling},
	{"internal/sync", Scheduling},
	{"time", Scheduling},
}

// inRuntime tell the runtime's functions apart, by the beginning of the name
// behind "runtime."; the first that fits counts, and what fits none schedules.
// Functions of the runtime in assembly have names without a package.
var inRuntime = []struct {
	names *regexp.Regexp
	part  Part
}{
	{regexp.MustCompile(`^(memmove|memequal|memeqbody|memhash|strhash|aeshash|nilinterhash|interhash|map[a-z]|indexbyte|countbody|cmpbody|cmpstring|` +
		`slicebytetostring|stringtoslicebyte|concatstring|intstring|typedmemmove|typedslicecopy|reflectcallmove|reflect_typedmemmove|efaceeq|ifaceeq|duff)`), Copies},
	{regexp.MustCompile(`^(malloc|newobject|newarray|makeslice|growslice|rawbyteslice|rawstring|memclr|typedmemclr|reflect_unsafe_New|nextFree|publicationBarrier|` +
		`deduct|postMalloc|profilealloc|mProf|getMCache|persistentalloc|sysAlloc|sysFree|sysUsed|sysUnused|sysHugePage|arena|` +
		`gc[A-Za-z]|scan|span|sweep|bgsweep|bgscavenge|finishsweep|isSweepDone|deferredSweep|drain|mark|grey|shade|findObject|tryDefer|` +
		`heap|extractHeapBits|typePointers|typeBitsBulkBarrier|badPointer|wb|bulkBarrier|newMarkBits|newAllocBits|nextMarkBitArena|mergeSummaries|packPallocSum|` +
		`getempty|putempty|putfull|trygetfull|handoff|stopTheWorld|startTheWorld|pallocSum|offAddr|` +
		`\(\*(mspan|mcache|mcentral|mheap|sweep|activeSweep|span|localSpan|headTailIndex|atomicHeadTailIndex|palloc|page|gc|consistentHeapStats|heapStats|fixalloc|` +
		`wbBuf|scav|atomicScav|lfstack|workbuf|addr|limiterEvent|markBits|sysMemStat|piController)|gcWork)`), Allocation},
	{regexp.MustCompile(`^(newstack|morestack|copystack|adjust|stack|shrinkstack|isShrinkStackSafe|pcvalue|pcdata|step$|readvarint|func(Max|data|spdelta|name|File|Info|tab)|` +
		`findfunc|findmoduledatap|syncadjustsudogs|tracebackPCs|isSystemGoroutine|funcInfo|bitvector|srcFunc|inlineUnwinder|` +
		`\(\*(unwinder|stkframe|moduledata|stack|bitvector|inlineUnwinder|pcHeader|Func|_func))`), Stacks},
	{regexp.MustCompile(`^(netpoll|entersyscall|exitsyscall|reentersyscall|epoll|poll_|\(\*poll|write1|read\.|usleep|futex\.)`), IO},
}

// partOf says where a function belongs.
func partOf(function string) Part {
	path, name := split(function)
	if path == "runtime" || path == "" {
		for _, r := range inRuntime {
			if r.names.MatchString(name) {
				return r.part
			}
		}
		if path == "" && strings.Contains(name, ":") { // made by the compiler: "type:.eq.…"
			return Rest
		}
		return Scheduling
	}
	for _, p := range packages {
		if path == p.path || strings.HasPrefix(path, p.path+"/") {
			return p.part
		}
	}
	return Rest
}

// split takes a symbol apart: the path of the package, empty for assembly and
// for what the compiler makes, and the name in it. Types in brackets may have
// paths of their own.
func split(function string) (path, name string) {
	head := function
	if i := strings.IndexAny(head, "[(:"); i >= 0 {
		head = head[:i]
	}
	from := strings.LastIndexByte(head, '/') + 1
	dot := strings.IndexByte(head[from:], '.')
	if dot < 0 {
		return "", function
	}
	return function[:from+dot], function[from+dot+1:]
}
