package reglog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/plugin/reglog"
	"github.com/tandem-rpc/tandem/server"
)

type Arith struct{}

func (Arith) Mul(a *[2]int, c *int) error {
	*c = a[0] * a[1]
	return nil
}

func Example() {
	srv := server.New(server.WithPlugins(reglog.Func(func(text string) { fmt.Println(text) })))
	_ = srv.Register(Arith{})
	_ = srv.RegisterFunc("Arith.Neg", func(n int) int { return -n })
	// Output:
	// registered service Arith (reglog_test.Arith): Arith.Mul
	// registered function: Arith.Neg
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	srv := server.New(server.WithPlugins(reglog.Logger{Log: slog.New(slog.NewTextHandler(&out, nil))}))
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "msg=registered service=Arith methods=[Arith.Mul]") {
		t.Errorf("got %s", &out)
	}
}
