package web_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/protocol/web"
)

var own = flag.Bool("own", false, "serve HTTP/2 with internal/http2 instead of net/http")

func TestMain(m *testing.M) {
	if flag.Parse(); *own {
		web.OwnHTTP2()
	}
	goleak.VerifyTestMain(m)
}
