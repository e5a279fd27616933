package instructions

import "testing"

func TestPartOf(t *testing.T) {
	for function, want := range map[string]Part{
		"github.com/tandem-rpc/tandem/bench/message.(*BenchmarkMessage).UnmarshalVT": Coding,
		"google.golang.org/protobuf/internal/impl.(*messageState).StoreMessageInfo":  Coding,
		"github.com/planetscale/vtprotobuf/protohelpers.EncodeVarint":                Coding,

		"runtime.mallocgcSmallNoscan":          Allocation,
		"runtime.(*mspan).writeHeapBitsSmall":  Allocation,
		"runtime.gcmarknewobject":              Allocation,
		"runtime.(*gcWork).put":                Allocation,
		"runtime.memclrNoHeapPointers":         Allocation,
		"gcWriteBarrier":                       Allocation,
		"runtime.memmove":                      Copies,
		"memeqbody":                            Copies,
		"internal/runtime/maps.(*Map).Delete":  Copies,
		"runtime.mapassign_fast64":             Copies,
		"runtime.copystack":                    Stacks,
		"runtime.(*stkframe).getStackMap":      Stacks,
		"runtime.pcvalue":                      Stacks,
		"runtime.findRunnable":                 Scheduling,
		"runtime.chanrecv":                     Scheduling,
		"gogo":                                 Scheduling,
		"runtime.stealWork":                    Scheduling,
		"sync.(*Pool).Get":                     Scheduling,
		"internal/sync.(*Mutex).lockSlow":      Scheduling,
		"time.Since":                           Scheduling,
		"runtime.netpoll":                      IO,
		"internal/poll.(*FD).Write":            IO,
		"internal/runtime/syscall/linux.Epoll": IO,
		"net.(*conn).Write":                    IO,

		"github.com/tandem-rpc/tandem/transport.(*lazyRead).run":    IO,
		"github.com/tandem-rpc/tandem/client.(*Client).Call":        Itself,
		"github.com/tandem-rpc/tandem.Metadata.Get":                 Itself,
		"github.com/tandem-rpc/tandem/bench/floor.(*Mux).Call":      Itself,
		"github.com/tandem-rpc/tandem/internal/dispatch.F[a/b.C].m": Itself,
		"main.caller.Call":       Itself,
		"net/rpc.(*Client).send": Itself,
		"github.com/tandem-rpc/tandem/bench/load.(*client).work":      Load,
		"github.com/HdrHistogram/hdrhistogram-go.(*Histogram).Record": Load,

		"reflect.Value.call": Rest,
		"netip.Addr.String":  Rest, // not of net
		"type:.eq.[2]string": Rest,
		"slices.Sort[go.shape.[]*github.com/tandem-rpc/tandem/client.Client]": Rest,
		"": Scheduling,
	} {
		if got := partOf(function); got != want {
			t.Errorf("%s belongs to %q, want %q", function, got, want)
		}
	}
}
