package web_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/protocol/web"
)

var netHTTP2 = flag.Bool("net", false, "serve HTTP/2 by net/http's engine")

func TestMain(m *testing.M) {
	if flag.Parse(); *netHTTP2 {
		web.NetHTTP2()
	}
	goleak.VerifyTestMain(m)
}
