// Command once is the program of docs/howto/once.md: an order that is written once, although its call is
// made again.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/stores/sqlstore"
)

func main() {
	dir, err := os.MkdirTemp("", "once-")
	if err == nil {
		err = run(context.Background(), filepath.Join(dir, "shop.db"))
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) (err error) {
	store, err := sqlstore.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.DB().ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, what TEXT)"); err != nil {
		return err
	}
	keyed := once.New(store, once.WithCaller(once.Anyone)) // with a plugin that authenticates, leave WithCaller out
	srv := server.New(server.WithPlugins(keyed))
	if err := server.Handle(srv, "Shop.Place", place); err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = srv.ServeListener(ln) }() // until Close
	defer func() { err = errors.Join(err, srv.Close()) }()

	c, err := client.Dial("tcp://"+ln.Addr().String(), client.WithFailMode(client.Failover))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, key := range []string{"order-17", "order-17", "order-18"} {
		number, err := client.Invoke[int64](ctx, c, "Shop.Place", "tea", client.Key(key))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(os.Stdout, "%s is number %d\n", key, *number); err != nil {
			return err
		}
	}
	return nil
}

// place writes an order in the transaction that has the call's record.
func place(ctx context.Context, what *string) (*int64, error) {
	tx, ok := sqlstore.Tx(ctx)
	if !ok {
		return nil, errors.New("orders need a key: client.Key")
	}
	done, err := tx.ExecContext(ctx, "INSERT INTO orders (what) VALUES (?)", *what)
	if err != nil {
		return nil, err
	}
	number, err := done.LastInsertId()
	return &number, err
}
