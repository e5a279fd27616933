// Package hello is what the thrift compiler makes of hello.thrift.
package hello
