/* What gate.proto says, for Thrift. */
struct Visit {
  1: string client,
  2: i32 inside,
}

service Gate {
  Visit Open(1: Visit visit),
}
