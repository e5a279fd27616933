// The seeds' service. The message is opaque to thrift: it is encoded with the
// generated code that all systems of the bench share.
namespace go hello

service Hello {
  binary say(1: binary message)
}
