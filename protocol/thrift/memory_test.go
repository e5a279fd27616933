//go:build linux

package thrift_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/bombtest"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Many concurrent messages that are small on the wire and large in memory take less than
// 512 MiB of a server, and do not affect other calls.
func TestBombsAreBounded(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it takes long, and measures the memory of a process")
	}
	var zipped bytes.Buffer
	w := zlib.NewWriter(&zipped)
	_, _ = w.Write([]byte(blobHead + "\x0b\x00\x01" + string(binary.BigEndian.AppendUint32(nil, bombtest.Size-100))))
	_, _ = w.Write(make([]byte, bombtest.Size-100+1))
	_ = w.Close()
	const many = 16
	bomb := header("\x01\x01", "", zipped.String())
	const papers = 200_000 // 59 MiB when decoded
	count := string(binary.BigEndian.AppendUint32(nil, papers))
	list := "\x80\x01\x00\x01\x00\x00\x00\x08by_title\x00\x00\x00\x07\x0f\x00\x01\x0c" + count + strings.Repeat("\x00", papers+1)
	bombtest.Run(t, []bombtest.Attack{
		{Name: "zlib", Send: bombtest.OverTCP(bombtest.Bombs(), nil, bomb)},
		{Name: "zlib, many connections", Send: func(t *testing.T, address string) {
			bombtest.Concurrently(bombtest.Bombs(), func() { bombtest.OverTCP(1, nil, bomb)(t, address) }) // a connection's are served in turn
		}},
		{Name: "lists", Send: bombtest.OverTCP(bombtest.Bombs()/many, nil, frame(list))},
		{Name: "bare lists, many connections", Send: func(t *testing.T, address string) {
			bombtest.Concurrently(many, func() { bombtest.OverTCP(bombtest.Bombs()/many/4, nil, []byte(list))(t, address) })
		}},
	})
}

// TestServeForBombs is not a test, but the server process that [bombtest.Run] starts.
func TestServeForBombs(t *testing.T) {
	bombtest.Serve(func(admit tandem.Interceptor) *server.Server {
		srv := server.New(server.WithInterceptors(admit), server.WithProtocols(web.New(),
			thrift.New(append(declarations(), thrift.WithService("Desk"))...)))
		if err := srv.RegisterName("Desk", &busy{}); err != nil {
			t.Fatal(err)
		}
		return srv
	})
}

// busy is an office that keeps its arguments for a while.
type busy struct{ office }

func (*busy) ByTitle(context.Context, []*desk.Paper) (map[string]*desk.Paper, error) {
	bombtest.Work(bombtest.Slow)
	return nil, nil
}

func (*busy) Blob(_ context.Context, data []byte) ([]byte, error) {
	bombtest.Work(bombtest.Small)
	return data[:1], nil
}
